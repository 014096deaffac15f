//! Values of arguments, from their text.

/// `NAME=VALUE`.
pub fn parse_param(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

/// A number of bytes: `8GiB`.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    let digits = text.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let number: f64 =
        text[..digits].parse().map_err(|_| "expected a size such as 8GiB".to_owned())?;
    let unit = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" | "kib" => 1024.0,
        "m" | "mb" | "mib" => 1024.0 * 1024.0,
        "g" | "gb" | "gib" => 1024.0 * 1024.0 * 1024.0,
        other => return Err(format!("`{other}` is not a unit of size: use KiB, MiB or GiB")),
    };
    Ok((number * unit) as usize)
}
