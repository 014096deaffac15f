//! The stage kinds: the behaviour of each in a file of its own, and the one list of them.

mod blend;
pub mod compare;
pub mod decide;
pub mod fit;
mod gather;
mod hypothesize;
pub mod index;
mod inference;
mod measure;
mod memory;
mod prove;
mod read;
mod report;
mod retrieve;
mod search;
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
        StageKind::Blend(settings) => settings.as_ref(),
        StageKind::Generate(settings) => settings.as_ref(),
        StageKind::Score(settings) => settings.as_ref(),
        StageKind::Embed(settings) => settings.as_ref(),
        StageKind::Hypothesize(settings) => settings.as_ref(),
        StageKind::Prove(settings) => settings.as_ref(),
        StageKind::Verify(settings) => settings.as_ref(),
        StageKind::Decide(settings) => settings.as_ref(),
        StageKind::Search(settings) => settings.as_ref(),
        StageKind::Teach(settings) => settings.as_ref(),
        StageKind::Fit(settings) => settings.as_ref(),
        StageKind::Measure(settings) => settings.as_ref(),
        StageKind::Compare(settings) => settings.as_ref(),
        StageKind::Write(settings) => settings.as_ref(),
        StageKind::Report(settings) => settings.as_ref(),
        StageKind::Gather(settings) => settings.as_ref(),
    }
}
