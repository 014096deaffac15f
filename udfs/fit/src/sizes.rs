//! The ranges of sizes, of a model that begins from nothing and of one that is trained further.

use proofmill_settings::fit::{Activation, DecoderSizes, Sizes};

use crate::error::FitError;
use crate::settings::Checked;

/// Buckets of relative positions of a model that begins from nothing, and the distance from which on all share one.
pub const BUCKETS: usize = 32;
pub const MAX_DISTANCE: usize = 128;

/// The name of an activation in `config.json`.
pub fn config_name(activation: Activation) -> &'static str {
    match activation {
        Activation::Relu => "relu",
        Activation::GatedGelu => "gated-gelu",
    }
}

/// Matrices that go up in front of an activation.
pub fn projections(activation: Activation) -> usize {
    match activation {
        Activation::Relu => 1,
        Activation::GatedGelu => 2,
    }
}

impl Checked for DecoderSizes {
    fn check(&self) -> Result<(), FitError> {
        size("layers", self.layers, 1, 96)?;
        self.heads.map_or(Ok(()), |heads| size("heads", heads, 1, 256))?;
        self.d_ff.map_or(Ok(()), |d_ff| size("d_ff", d_ff, 1, 65_536))
    }
}

impl Checked for Sizes {
    fn check(&self) -> Result<(), FitError> {
        size("d_model", self.d_model, 1, 8192)?;
        size("d_kv", self.d_kv, 1, 1024)?;
        size("d_ff", self.d_ff, 1, 65_536)?;
        size("heads", self.heads, 1, 256)?;
        size("layers", self.layers, 1, 96)?;
        if let Some(layers) = self.decoder_layers {
            size("decoder_layers", layers, 1, 96)?;
        }
        size("matching_heads", self.matching_heads(), 0, self.heads)?;
        size("min_count", self.min_count() as usize, 1, 1_000_000_000)
    }
}

/// Refuses numbers of buckets of relative positions and distances that are out of range: an even number from 4 to 256, and from
/// as many to 65,536.
pub fn check_positions(buckets: usize, max_distance: usize) -> Result<(), FitError> {
    size("buckets", buckets, 4, 256)?;
    if buckets % 2 == 1 {
        return Err(refuse("buckets", buckets, "an even number from 4 to 256".to_owned()));
    }
    size("max_distance", max_distance, buckets, 65_536)
}

fn size(name: &'static str, found: usize, least: usize, most: usize) -> Result<(), FitError> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(refuse(name, found, format!("a whole number from {least} to {most}")))
}

fn refuse(name: &'static str, found: usize, expected: String) -> FitError {
    FitError::Setting { name, found: found.to_string(), expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_out_of_range_are_named_with_their_value() {
        let tiny = Sizes::tiny();
        tiny.check().unwrap();
        let wrong = [
            (
                Sizes { d_model: 0, ..tiny },
                "`d_model` is 0, expected a whole number from 1 to 8192",
            ),
            (Sizes { d_kv: 2000, ..tiny }, "`d_kv` is 2000"),
            (Sizes { d_ff: 0, ..tiny }, "`d_ff` is 0"),
            (Sizes { heads: 0, ..tiny }, "`heads` is 0"),
            (Sizes { layers: 97, ..tiny }, "`layers` is 97"),
            (Sizes { decoder_layers: Some(0), ..tiny }, "`decoder_layers` is 0"),
            (
                Sizes { matching_heads: Some(5), ..tiny },
                "`matching_heads` is 5, expected a whole number from 0 to 4",
            ),
            (Sizes { min_count: Some(0), ..tiny }, "`min_count` is 0"),
        ];
        for (sizes, expected) in wrong {
            let message = sizes.check().unwrap_err().to_string();
            assert!(message.starts_with(expected), "{message}");
        }
        check_positions(BUCKETS, MAX_DISTANCE).unwrap();
        let refused =
            |buckets, distance| check_positions(buckets, distance).unwrap_err().to_string();
        assert!(refused(5, 128).starts_with("`buckets` is 5, expected an even number"));
        let expected = "`max_distance` is 31, expected a whole number from 32";
        assert!(refused(32, 31).starts_with(expected));
        let read: Sizes =
            serde_json::from_str(r#"{"d_model":128,"d_kv":32,"d_ff":512,"heads":4,"layers":2}"#)
                .unwrap();
        assert_eq!(read, tiny);
    }
}
