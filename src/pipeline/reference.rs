//! Names of stages as settings and SQL write them, looked up from where they stand.

use crate::pipeline::{full_group, full_name};

/// The full names that `written` may mean for a stage in `scope`, nearest first.
pub fn candidates(scope: &[String], written: &str) -> Vec<String> {
    (0..=scope.len())
        .rev()
        .map(|depth| match written.split_once('.') {
            Some((group, stage)) => format!("{}.{stage}", full_group(&scope[..depth], group)),
            None => full_name(&scope[..depth], written),
        })
        .collect()
}

/// The shortest way to write the stage `name` in `scope`.
pub fn shortest(scope: &[String], name: &str) -> String {
    let own = name.split_once('.').filter(|(group, _)| scope.iter().any(|outer| outer == group));
    own.map_or(name, |(_, stage)| stage).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_names_come_first() {
        let scope = ["a".to_owned(), "a_b".to_owned()];
        assert_eq!(candidates(&scope, "s"), ["a_b.s", "a.s", "s"]);
        assert_eq!(candidates(&scope, "g.s"), ["a_b_g.s", "a_g.s", "g.s"]);
        assert_eq!(candidates(&[], "s"), ["s"]);
        assert_eq!(shortest(&scope, "a_b.s"), "s");
        assert_eq!(shortest(&scope, "c.s"), "c.s");
    }
}
