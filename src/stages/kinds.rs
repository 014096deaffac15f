//! The stage kinds: the behaviour of each in a file of its own, and the one list of them.

mod carry;
mod command;
pub mod compare;
pub mod fit;
mod hypothesize;
pub mod index;
mod inference;
mod matrix_union;
mod measure;
mod memory;
mod prompt;
mod proof_search;
mod prove;
mod python;
mod rank_fusion;
mod read;
mod report;
mod retrieve;
pub mod select_answer;
mod sql;
mod teach;
mod verify;
mod write;

use proofmill_pipeline::kinds::StageKind;

use crate::stages::kind::Kind;

/// The behaviour of a kind.
pub fn behaviour(kind: &StageKind) -> &dyn Kind {
    match kind {
        StageKind::Read(settings) => settings.as_ref(),
        StageKind::Memory(settings) => settings.as_ref(),
        StageKind::Sql(settings) => settings.as_ref(),
        StageKind::Index(settings) => settings.as_ref(),
        StageKind::Retrieve(settings) => settings.as_ref(),
        StageKind::RankFusion(settings) => settings.as_ref(),
        StageKind::Prompt(settings) => settings.as_ref(),
        StageKind::Generate(settings) => settings.as_ref(),
        StageKind::Score(settings) => settings.as_ref(),
        StageKind::Embed(settings) => settings.as_ref(),
        StageKind::Hypothesize(settings) => settings.as_ref(),
        StageKind::Prove(settings) => settings.as_ref(),
        StageKind::Verify(settings) => settings.as_ref(),
        StageKind::SelectAnswer(settings) => settings.as_ref(),
        StageKind::ProofSearch(settings) => settings.as_ref(),
        StageKind::Teach(settings) => settings.as_ref(),
        StageKind::Fit(settings) => settings.as_ref(),
        StageKind::Command(settings) => settings.as_ref(),
        StageKind::Python(settings) => settings.as_ref(),
        StageKind::Measure(settings) => settings.as_ref(),
        StageKind::Compare(settings) => settings.as_ref(),
        StageKind::Write(settings) => settings.as_ref(),
        StageKind::Report(settings) => settings.as_ref(),
        StageKind::MatrixUnion(settings) => settings.as_ref(),
        StageKind::Carry(settings) => settings.as_ref(),
    }
}
