//! What the statistics refuse to compute.

/// The largest number of resamples a call may ask for: a bound on time and memory.
pub const RESAMPLES_MAX: u32 = 1_000_000;

/// The largest number of bins a call may ask for.
pub const BINS_MAX: usize = 1_000;

/// A reason why a statistic has no value for the given input.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StatsError {
    /// There is nothing to compute from.
    #[error("there are no values")]
    Empty,
    /// Two columns that belong together differ in length.
    #[error("{left} values on one side, {right} on the other; expected equally many")]
    Length {
        /// Length of the first column.
        left: usize,
        /// Length of the second column.
        right: usize,
    },
    /// A confidence level outside (0, 1).
    #[error("confidence level `{0}`; expected a number between 0 and 1, for example 0.95")]
    Level(f64),
    /// A number of resamples outside the permitted range.
    #[error("`{0}` resamples; expected between 1 and {max}", max = RESAMPLES_MAX)]
    Resamples(u32),
    /// NaN or an infinity among the values.
    #[error("value `{0}`; expected a finite number")]
    NotFinite(f64),
    /// A number outside [0, 1] where a probability is needed.
    #[error("`{name}` is `{value}`; expected a probability between 0 and 1")]
    Probability { name: &'static str, value: f64 },
    /// More classes than a result may have.
    #[error("{found} classes; expected at most {max}: group the rows by both labels and count")]
    Classes {
        /// Different labels of both columns.
        found: usize,
        /// The most there may be.
        max: usize,
    },
    /// A number of bins outside the permitted range.
    #[error("`{0}` bins; expected between 1 and {max}", max = BINS_MAX)]
    Bins(usize),
    /// Items that were not rated equally often.
    #[error(
        "item `{other}` has {found} ratings and item `{first}` has {raters}; expected equally many for all"
    )]
    Raters {
        /// The first item in natural order.
        first: String,
        /// Its ratings.
        raters: u64,
        /// The first item with another number of them.
        other: String,
        /// Its ratings.
        found: u64,
    },
    /// More successes than trials.
    #[error("{successes} successes in {n} trials; expected at most as many successes as trials")]
    Successes {
        /// Number of successes.
        successes: u64,
        /// Number of trials.
        n: u64,
    },
}
