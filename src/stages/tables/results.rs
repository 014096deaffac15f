//! The columns that `measure` and `compare` make themselves: what each is, and what people see of it. All other columns of a
//! result are labels that the pipeline chose.

/// What a column of a result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultRole {
    /// Which metric the row is about.
    Metric,
    /// What tells the row from others of its metric.
    Label,
    /// A number, how certain it is, or how it was made.
    Number,
}

/// A column of a result.
#[derive(Clone, Copy, Debug)]
pub struct ResultColumn {
    pub name: &'static str,
    pub role: ResultRole,
    /// Its heading where people read the result; `None` where only the stored table has it.
    pub title: Option<&'static str>,
}

const fn shown(name: &'static str, role: ResultRole, title: &'static str) -> ResultColumn {
    ResultColumn { name, role, title: Some(title) }
}

const fn number(name: &'static str, title: &'static str) -> ResultColumn {
    shown(name, ResultRole::Number, title)
}

const fn stored(name: &'static str) -> ResultColumn {
    ResultColumn { name, role: ResultRole::Number, title: None }
}

/// All of them.
pub const RESULT_COLUMNS: [ResultColumn; 32] = [
    shown("name", ResultRole::Metric, "metric"),
    shown("metric", ResultRole::Metric, "metric"),
    shown("baseline", ResultRole::Label, "baseline"),
    shown("candidate", ResultRole::Label, "candidate"),
    number("value", "value"),
    number("baseline_value", "baseline"),
    number("candidate_value", "candidate"),
    number("diff", "diff"),
    number("ci_low", "low"),
    number("ci_high", "high"),
    stored("ci_method"),
    stored("se"),
    number("n_attempted", "attempted"),
    number("n_answered", "answered"),
    number("n_errored", "errored"),
    number("n_excluded", "excluded"),
    stored("value_answered"),
    stored("value_bound"),
    number("only_baseline", "only base"),
    number("only_candidate", "only cand"),
    number("p_mcnemar", "p mcnemar"),
    number("p_bootstrap", "p boot"),
    stored("p_clustered"),
    number("p_holm", "p holm"),
    number("n", "n"),
    stored("n_unpaired"),
    number("runs", "runs"),
    number("noise_floor", "noise_floor"),
    number("above_noise", "above_noise"),
    number("alpha_spent", "alpha_spent"),
    number("alarm", "alarm"),
    number("e_value", "e_value"),
];

/// What is known of a column; `None` for a label that the pipeline chose.
pub fn result_column(name: &str) -> Option<&'static ResultColumn> {
    RESULT_COLUMNS.iter().find(|column| column.name == name)
}
