//! The steps of a reasoning that a model wrote as a numbered or bulleted list.

/// Words with which a step says what follows, instead of something to go by.
const CONCLUDING: [&str; 7] =
    ["therefore", "thus", "hence", "so", "consequently", "conclusion", "in conclusion"];

/// The steps of a reasoning: what stands behind the mark of each line that has one. Marks are
/// `1.`, `1)`, `(1)`, `1:`, `Step 1:`, `-`, `*` and `•`. Emphasis (`**`) is taken away. Lines without
/// a mark, and steps that begin with a concluding word, are none.
pub fn steps(text: &str) -> Vec<String> {
    text.lines().filter_map(step).collect()
}

/// The steps of a reasoning that do not just repeat what they should show.
pub fn steps_towards(text: &str, conclusion: &str) -> Vec<String> {
    let conclusion = plain(conclusion);
    steps(text).into_iter().filter(|step| plain(step) != conclusion).collect()
}

fn step(line: &str) -> Option<String> {
    let content = unmarked(line.replace("**", "").trim())?.trim().to_owned();
    (!content.is_empty() && !concludes(&content)).then_some(content)
}

/// What stands behind the mark of a line; `None` if it has no mark.
fn unmarked(line: &str) -> Option<&str> {
    let bullet = line.strip_prefix(['-', '*', '•']).filter(|rest| rest.starts_with(' '));
    if bullet.is_some() {
        return bullet;
    }
    let (rest, named) = match strip_word(line, "step") {
        Some(rest) => (rest.trim_start(), true),
        None => (line, false),
    };
    let (rest, open) = match rest.strip_prefix('(') {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let rest = (1..=3).contains(&digits).then(|| &rest[digits..])?;
    let rest = if open { rest.strip_prefix(')') } else { rest.strip_prefix(['.', ')', ':']) }?;
    // `1.5 metres` is a number, `1.Copper` is a step; so is all that is called one.
    let decimal = rest.starts_with(|c: char| c.is_ascii_digit());
    (named || !decimal).then_some(rest)
}

/// What follows `word` at the beginning of `line`, in any case of letters.
fn strip_word<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    let (head, rest) = line.split_at_checked(word.len())?;
    let ends = !rest.starts_with(char::is_alphanumeric);
    (head.eq_ignore_ascii_case(word) && ends).then_some(rest)
}

fn concludes(step: &str) -> bool {
    CONCLUDING.iter().any(|word| strip_word(step, word).is_some())
}

/// A sentence without case, spare white space and the full stop at its end.
fn plain(sentence: &str) -> String {
    let words: Vec<String> = sentence.split_whitespace().map(str::to_lowercase).collect();
    let joined = words.join(" ");
    joined.strip_suffix('.').map(str::trim_end).unwrap_or(&joined).to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn marked_lines_are_steps() {
        let text = "Let us think.\n1. A penny is made of copper.\n 2) **Copper** is no iron.\n\n(3) Magnets \
                    attract iron.\nStep 4: A magnet cannot attract copper.\n- Iron rusts.\n* Water is wet.\n\
                    • Snow is cold.\n5: Ice melts.\nSo a magnet will not attract a penny.";
        assert_eq!(
            steps(text),
            [
                "A penny is made of copper.",
                "Copper is no iron.",
                "Magnets attract iron.",
                "A magnet cannot attract copper.",
                "Iron rusts.",
                "Water is wet.",
                "Snow is cold.",
                "Ice melts.",
            ]
        );
    }

    #[test]
    fn what_is_no_step_is_left_out() {
        for line in [
            "A penny is made of copper.",
            "1.5 metres is long.",
            "1234. Too large a number.",
            "2.",
            "- ",
            "-5 degrees is cold.",
            "3. Therefore, a magnet will not attract a penny.",
            "4. **So** it will not.",
            "Stepping 1: no",
            "(5 no end",
            "",
        ] {
            assert_eq!(steps(line), [""; 0], "{line}");
        }
        assert_eq!(steps("1. Some magnets are strong."), ["Some magnets are strong."]);
        assert_eq!(steps("Step 1. 5 metres is long."), ["5 metres is long."]);
    }

    #[test]
    fn repeating_what_should_be_shown_is_no_step() {
        let text = "1. A penny is copper.\n2. a magnet  will not attract a penny.";
        assert_eq!(
            steps_towards(text, "A magnet will not attract a penny"),
            ["A penny is copper."]
        );
    }

    proptest! {
        #[test]
        fn every_step_is_a_stripped_part_of_its_line(text in "([0-9(). *-]{0,4}[a-zA-Z. \n]{0,9}){0,5}|\\PC{0,40}") {
            for step in steps(&text) {
                prop_assert!(!step.is_empty() && step.trim() == step, "{step:?}");
                prop_assert!(text.replace("**", "").contains(&step), "{step:?}");
            }
        }

        #[test]
        fn a_list_comes_back(sentences in prop::collection::vec("[ABC][a-z]{1,5}( [a-z]{1,5}){0,3}\\.", 0..6)) {
            let numbered = sentences.iter().enumerate();
            let lines: Vec<String> =
                numbered.map(|(at, sentence)| format!("{}. {sentence}", at + 1)).collect();
            prop_assert_eq!(steps(&lines.join("\n")), sentences);
        }
    }
}
