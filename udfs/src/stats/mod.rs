//! Statistics of an evaluation: plain functions over slices, no Arrow, no SQL.
//!
//! Every result is a function of the *multiset* of its inputs and of the seed: rows may come in
//! any order, from any number of partitions or machines.

mod agreement;
mod bootstrap;
mod calibration;
mod classification;
mod clustered;
mod drops;
mod error;
mod mcnemar;
mod multiplicity;
mod noise;
mod normal;
mod paired;
mod power;
mod proportions;
mod randomization;
mod rng;
mod sequential;
mod student;
mod votes;

pub use agreement::{KappaWeights, UnknownWeights, cohen_kappa, fleiss_kappa};
pub use bootstrap::{Interval, Method, UnknownMethod, bootstrap_mean, cluster_bootstrap};
pub use calibration::{Calibration, CalibrationBin, calibration};
pub use classification::{
    Average, ClassScore, Confusion, ConfusionTable, UnknownAverage, accuracy, mcc,
};
pub use clustered::{ClusteredSe, clustered_se, two_way_clustered_se};
pub use drops::{
    Discordant, discordant_needed, drop_bound, drop_excluded_p, drop_power, fewest_discordant,
    questions_to_exclude, questions_to_exclude_of_mean, sign_drop_p, sign_power, smallest_found,
};
pub use error::{BINS_MAX, RESAMPLES_MAX, StatsError};
pub use mcnemar::{ChiSquare, McNemar, mcnemar};
pub use multiplicity::{benjamini_hochberg, holm};
pub use noise::{NoiseFloor, noise_floor};
pub use normal::{normal_cdf, normal_multiplier, normal_quantile, two_sided_p};
pub use paired::{
    PairedBootstrap, PairedDifference, clustered_paired, paired_bootstrap,
    paired_bootstrap_of_differences, paired_difference, paired_difference_with_multiplier,
    signs_alike_p,
};
pub use power::{PowerLine, power_paired_proportions};
pub use proportions::{TwoProportionZ, clustered_wilson, two_proportion_z, wilson};
pub use randomization::randomization_of_differences;
pub use sequential::{alpha_spent, sign_e_value};
pub use student::{t_multiplier, t_two_sided_p};
pub use votes::{majority, mode, weighted_vote};

/// Numbers vary less than this part of their mean by rounding alone.
pub const ROUNDING: f64 = 1e-12;

/// Checks the number of resamples.
fn check_resamples(n_resamples: u32) -> Result<(), StatsError> {
    if n_resamples == 0 || n_resamples > RESAMPLES_MAX {
        return Err(StatsError::Resamples(n_resamples));
    }
    Ok(())
}

/// Checks a confidence level.
fn check_level(level: f64) -> Result<(), StatsError> {
    if level > 0.0 && level < 1.0 { Ok(()) } else { Err(StatsError::Level(level)) }
}

/// Checks that there are values and that all are finite.
fn check_values(values: &[f64]) -> Result<(), StatsError> {
    if values.is_empty() {
        return Err(StatsError::Empty);
    }
    match values.iter().find(|value| !value.is_finite()) {
        Some(value) => Err(StatsError::NotFinite(*value)),
        None => Ok(()),
    }
}

/// Checks that two columns have the same length.
fn check_lengths(left: usize, right: usize) -> Result<(), StatsError> {
    if left == right { Ok(()) } else { Err(StatsError::Length { left, right }) }
}

/// The item-wise differences `a - b`.
fn differences(a: &[f64], b: &[f64]) -> Result<Vec<f64>, StatsError> {
    check_lengths(a.len(), b.len())?;
    let d: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    check_values(&d)?;
    Ok(d)
}

/// The values in total order, so that sums do not depend on the order of the rows.
fn sorted(values: &[f64]) -> Vec<f64> {
    // `-0.0 + 0.0` is `0.0`: the two zeros are one value.
    let mut sorted: Vec<f64> = values.iter().map(|value| value + 0.0).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// Mean of values that are already in a fixed order.
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Sample standard deviation (divisor n - 1); NaN below two values.
fn sample_sd(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return f64::NAN;
    }
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() - 1) as f64).sqrt()
}
