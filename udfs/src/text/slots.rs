//! Entailer's strings: named slots (`$proof$ = …`) and premises (`[PREMISE] …`).
//!
//! Source: the released code of Entailer (allenai/entailment_bank, `utils/nlp_agent.py`): slots are
//! separated by ` ; `, assigned by ` = `; text before the first slot belongs to a slot `PREFIX`; a
//! slot that stands twice has its values joined by ` ~AND~ `.

/// The name of what stands before the first slot.
pub const PREFIX: &str = "PREFIX";
/// What stands between the values of a slot that is there twice.
const AND: &str = " ~AND~ ";
/// What stands before each premise of a proof.
const PREMISE: &str = "[PREMISE]";

/// The value of slot `name` (in any case of letters) in `text`; `None` if it is not there. A value
/// is stripped of the ` = ` before it and the ` ; ` after it.
pub fn slot_value(text: &str, name: &str) -> Option<String> {
    let mut values: Vec<&str> = Vec::new();
    let mut owner = PREFIX;
    let mut rest = text;
    loop {
        let next = next_slot(rest);
        let value = next.map_or(rest, |slot| &rest[..slot.start]);
        if owner.eq_ignore_ascii_case(name) && (owner != PREFIX || !value.trim().is_empty()) {
            values.push(stripped(value));
        }
        let Some(slot) = next else { break };
        owner = &rest[slot.start + 1..slot.end - 1];
        rest = &rest[slot.end..];
    }
    (!values.is_empty()).then(|| values.join(AND))
}

/// The premises of a proof: what stands between the marks, without those that are empty. `text` is
/// the proof itself or a whole output with a slot `proof`.
pub fn premises(text: &str) -> Vec<String> {
    let proof = slot_value(text, "proof");
    let proof = proof.as_deref().unwrap_or(text);
    let parts = proof.split(PREMISE).map(str::trim).filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}

/// Where a slot's name stands, its two `$` included.
#[derive(Clone, Copy)]
struct Slot {
    start: usize,
    end: usize,
}

/// The first `$name$`, where the name is made of word characters only.
fn next_slot(text: &str) -> Option<Slot> {
    let mut from = 0;
    while let Some(start) = text[from..].find('$').map(|at| from + at) {
        let name = &text[start + 1..];
        let length = name.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(name.len());
        if name[length..].starts_with('$') {
            return Some(Slot { start, end: start + 1 + length + 1 });
        }
        from = start + 1;
    }
    None
}

fn stripped(value: &str) -> &str {
    let value = value.trim();
    let value = value.strip_prefix('=').unwrap_or(value).trim_start();
    value.strip_suffix(';').unwrap_or(value).trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_have_their_values() {
        let text = "well $proof$ = [PREMISE] a b. [PREMISE] c. ; $Answer$ = x ; $proof$ = d";
        assert_eq!(slot_value(text, "answer").as_deref(), Some("x"));
        assert_eq!(slot_value(text, "prefix").as_deref(), Some("well"));
        assert_eq!(
            slot_value(text, "proof").as_deref(),
            Some("[PREMISE] a b. [PREMISE] c. ~AND~ d")
        );
        assert_eq!(slot_value(text, "valid"), None);
        assert_eq!(slot_value("$valid$ = true", "PREFIX"), None);
        assert_eq!(slot_value("costs $5 and $6", "5 and "), None);
    }

    #[test]
    fn premises_are_split_and_stripped() {
        let proof =
            "$proof$ = [PREMISE] A penny is made of copper.[PREMISE] [PREMISE] Copper is a metal. ";
        assert_eq!(premises(proof), ["A penny is made of copper.", "Copper is a metal."]);
        assert_eq!(premises("[PREMISE] only one"), ["only one"]);
        assert_eq!(premises("no mark"), ["no mark"]);
        assert_eq!(premises("$proof$ ="), Vec::<String>::new());
        assert_eq!(premises(""), Vec::<String>::new());
    }
}
