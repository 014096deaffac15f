//! Aggregate SQL functions: one definition a file, one list, one implementation of DataFusion's
//! trait.
//!
//! Rows with a NULL in any column argument are left out; an aggregate of no rows is NULL. The
//! result depends on the rows and not on their order or partition.

mod accuracy;
mod approximate_randomization;
mod bootstrap_ci;
mod calibration;
mod class_scores;
mod cluster_bootstrap_ci;
mod clustered_paired;
mod clustered_se;
mod cohen_kappa;
mod confusion_matrix;
mod constants;
mod corpus_bleu;
mod corpus_chrf;
mod f1_score;
mod fleiss_kappa;
mod function;
mod majority;
mod mcc;
mod mcnemar;
mod mode;
mod noise_floor;
mod outputs;
mod paired_bootstrap;
mod paired_difference;
mod pairs;
mod samples;
mod tally;
mod weighted_vote;

pub use constants::Constants;
pub use function::{AggregateDefinition, udf};

/// Every aggregate function of this crate.
pub static DEFINITIONS: &[&AggregateDefinition] = &[
    &accuracy::ACCURACY,
    &mcc::MCC,
    &corpus_bleu::CORPUS_BLEU,
    &corpus_chrf::CORPUS_CHRF,
    &bootstrap_ci::BOOTSTRAP_CI,
    &cluster_bootstrap_ci::CLUSTER_BOOTSTRAP_CI,
    &clustered_se::CLUSTERED_SE,
    &mcnemar::MCNEMAR,
    &paired_difference::PAIRED_DIFFERENCE,
    &clustered_paired::CLUSTERED_PAIRED,
    &paired_bootstrap::PAIRED_BOOTSTRAP,
    &approximate_randomization::APPROXIMATE_RANDOMIZATION,
    &noise_floor::NOISE_FLOOR,
    &mode::MODE,
    &majority::MAJORITY,
    &weighted_vote::WEIGHTED_VOTE,
    &cohen_kappa::COHEN_KAPPA,
    &fleiss_kappa::FLEISS_KAPPA,
    &f1_score::F1_SCORE,
    &class_scores::CLASS_SCORES,
    &confusion_matrix::CONFUSION_MATRIX,
    &calibration::CALIBRATION,
];
