//! The tokenizer of mteval-v13a, as sacrebleu's `13a` applies it.

use super::words::split;

/// Separates punctuation and undoes the four SGML entities; tokens end at white space.
///
/// The steps follow sacrebleu 2.6.0 (Post 2018), each left to right over the result of the last.
pub fn tokenize_13a(line: &str) -> Vec<Box<str>> {
    let spaced = separate(&prepare(line));
    split(&spaced).map(Box::from).collect()
}

/// The language-independent part.
fn prepare(line: &str) -> String {
    let mut text = line.replace("<skipped>", "").replace("-\n", "").replace('\n', " ");
    if text.contains('&') {
        for (entity, plain) in [("&quot;", "\""), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">")] {
            text = text.replace(entity, plain);
        }
    }
    format!(" {text} ")
}

/// The language-dependent part: spaces around symbols, and around `.` `,` `-` by their neighbours.
fn separate(text: &str) -> String {
    let mut symbols = String::with_capacity(text.len() * 2);
    for c in text.chars() {
        match c {
            '{'..='~' | '['..='`' | ' '..='&' | '('..='+' | ':'..='@' | '/' => {
                symbols.extend([' ', c, ' ']);
            }
            _ => symbols.push(c),
        }
    }
    let after_non_digit = pairs(&symbols, |left, right| {
        (!left.is_ascii_digit() && is_stop(right)).then_some(Spacing::AroundSecond)
    });
    let before_non_digit = pairs(&after_non_digit, |left, right| {
        (is_stop(left) && !right.is_ascii_digit()).then_some(Spacing::AroundFirst)
    });
    pairs(&before_non_digit, |left, right| {
        (left.is_ascii_digit() && right == '-').then_some(Spacing::AroundSecond)
    })
}

fn is_stop(c: char) -> bool {
    c == '.' || c == ','
}

/// Where a matched pair of characters gets its spaces.
enum Spacing {
    AroundFirst,
    AroundSecond,
}

/// One substitution over pairs of characters that do not overlap, like `re.sub`.
fn pairs(text: &str, spacing: impl Fn(char, char) -> Option<Spacing>) -> String {
    let mut spaced = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(left) = chars.next() {
        let found = chars.peek().and_then(|right| Some((*right, spacing(left, *right)?)));
        match found {
            None => spaced.push(left),
            Some((right, Spacing::AroundFirst)) => {
                spaced.extend([' ', left, ' ', right]);
                chars.next();
            }
            Some((right, Spacing::AroundSecond)) => {
                spaced.extend([left, ' ', right, ' ']);
                chars.next();
            }
        }
    }
    spaced
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(line: &str) -> String {
        tokenize_13a(line).join(" ")
    }

    #[test]
    fn agrees_with_sacrebleu_on_hard_cases() {
        // Values of sacrebleu.tokenizers.tokenizer_13a.Tokenizer13a()(line).
        for (line, expected) in [
            ("Hello, world.", "Hello , world ."),
            ("1,000.50 and .5, 3.", "1,000.50 and . 5 , 3 ."),
            ("a..b", "a . . b"),
            ("2020-21 well-known", "2020 - 21 well-known"),
            ("it's &quot;x&quot; &amp;lt; y", "it's \" x \" < y"),
            ("end-\nof <skipped>line\nnext", "endof line next"),
            ("é.è,ü", "é . è , ü"),
            ("", ""),
        ] {
            assert_eq!(joined(line), expected, "{line:?}");
        }
    }
}
