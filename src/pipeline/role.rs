//! What the table of a kind is to others: to traces, differences, pages, and to what a run shows at its end. A record
//! of the store has the name of its kind, from which [`KindRole::of`] tells the same of past runs.

/// What the table of a stage is, by its kind. The list of kinds gives each its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindRole {
    /// Rows from outside the store.
    Source,
    /// Facts that users taught.
    Memory,
    /// Rows computed from others, with no meaning beyond their columns.
    Rows,
    /// Entries of its inputs, found or merged by rank.
    Ranking,
    /// Entries of its input `memory`, ranked for each row of `from`.
    Retrieval,
    /// Hypotheses, one for each possible answer of a question.
    Hypotheses,
    /// Proofs as a model wrote them.
    Proofs,
    /// Proofs that were written and judged in one stage.
    SearchedProofs,
    /// Beliefs of a model in proofs and hypotheses.
    Judgements,
    /// One answer for each question.
    Answers,
    /// Answers, and what a user taught after each.
    Lessons,
    /// A folder with a trained model, and its evaluations as rows.
    Model,
    /// Metrics of one table.
    Metrics,
    /// Differences between systems.
    Comparison,
    /// Files outside the store.
    Export,
    /// What people read at the end of a run.
    Page,
    /// The rows of all instances of a matrix, or of all turns of a repeated group.
    Union,
    /// The rows that one turn of a repeated group hands to the next.
    Carried,
}

impl KindRole {
    /// Whether the rows are numbers that a run shows at its end.
    pub fn is_result(self) -> bool {
        matches!(self, Self::Metrics | Self::Comparison)
    }

    /// Whether the rows are about tables and not about items.
    pub fn is_summary(self) -> bool {
        self.is_result() || self == Self::Page
    }

    /// Whether the rows are answers that were chosen among hypotheses.
    pub fn is_answer(self) -> bool {
        matches!(self, Self::Answers | Self::Lessons)
    }

    /// Whether all rows stand in an input, too.
    pub fn repeats(self) -> bool {
        matches!(self, Self::Union | Self::Carried)
    }
}
