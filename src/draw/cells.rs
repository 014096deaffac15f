//! Values as text for a terminal: numbers short, nothing that could control the terminal.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use proofmill_base::styled::printable;

/// The texts of a column, each on one line; `full` keeps long ones.
pub fn texts(column: &ArrayRef, full: bool) -> Vec<String> {
    formatted(column).into_iter().map(|text| printable(&text, full)).collect()
}

/// The values of a column as they are, with their line breaks and whatever else they hold; NULL as nothing.
pub fn formatted(column: &ArrayRef) -> Vec<String> {
    let options = FormatOptions::default().with_null("");
    let float = |value: f64| format_float(value);
    match column.data_type() {
        DataType::Float64 => column
            .as_primitive::<Float64Type>()
            .iter()
            .map(|v| v.map(float).unwrap_or_default())
            .collect(),
        DataType::Float32 => column
            .as_primitive::<Float32Type>()
            .iter()
            .map(|v| v.map(|v| float(v.into())).unwrap_or_default())
            .collect(),
        _ => match ArrayFormatter::try_new(column.as_ref(), &options) {
            Ok(formatter) => {
                (0..column.len()).map(|row| formatter.value(row).to_string()).collect()
            }
            Err(error) => vec![error.to_string(); column.len()],
        },
    }
}

/// A number with four decimals, or in powers of ten where that says more. One that is not whole does
/// not look as if it were, but for the eighth decimal: 0.99995 is not 1.
pub fn format_float(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        "0".to_owned()
    } else if !value.is_finite() || (1e-3..1e7).contains(&size) {
        let looks_whole = |text: &String| text.trim_end_matches('0').ends_with('.');
        let mut longer = (4..=8).map(|decimals| format!("{value:.decimals$}"));
        longer.find(|text| !looks_whole(text)).unwrap_or_else(|| format!("{value:.0}"))
    } else {
        format!("{value:.2e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_short() {
        for (value, text) in
            [(0.5, "0.5000"), (12.0, "12"), (1e-9, "1.00e-9"), (0.0, "0"), (0.0609, "0.0609")]
        {
            assert_eq!(format_float(value), text);
        }
    }

    #[test]
    fn what_is_not_whole_does_not_look_whole() {
        for (value, text) in [
            (0.99995, "0.99995"),
            (1.0 - 1e-6, "0.999999"),
            (-0.99999, "-0.99999"),
            (1.0 - 1e-12, "1"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(format_float(value), text);
        }
    }
}
