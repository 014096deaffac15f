//! One model function a file, and the one list of them; what several of them share lies in `generation` and
//! `vector`.

mod classify;
mod embed;
mod fuse;
mod generate;
mod generation;
mod hidden;
mod score;
mod score_choices;
mod shared;
mod token_logprobs;
mod vector;

use self::classify::CLASSIFY;
use self::embed::EMBED;
use self::fuse::FUSE;
use self::generate::GENERATE;
use self::hidden::HIDDEN;
use self::score::SCORE;
use self::score_choices::SCORE_CHOICES;
use super::definition::ModelDefinition;

/// Every model function of this crate.
pub static DEFINITIONS: &[&ModelDefinition] =
    &[&GENERATE, &FUSE, &SCORE, &SCORE_CHOICES, &CLASSIFY, &EMBED, &HIDDEN];
