//! Small local files in one blocking step: opening, examining and reading them.

use std::fs::File;
use std::io::{self, Read as _};
use std::path;
use std::time::SystemTime;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream;
use object_store::path::Path;
use object_store::{Attributes, GetOptions, GetResult, GetResultPayload, ObjectMeta};

use crate::disk::refuse_symlinks;

/// Size of an object, in bytes, up to which one blocking task opens and reads it.
pub(crate) const SMALL_BYTES_MAX: u64 = 256 << 10;

/// True when all of an object is requested, without conditions.
pub(crate) fn is_plain(options: &GetOptions) -> bool {
    let GetOptions {
        if_match: None,
        if_none_match: None,
        if_modified_since: None,
        if_unmodified_since: None,
        range: None,
        version: None,
        head: false,
        ..
    } = options
    else {
        return false;
    };
    true
}

/// The bytes of a file and when it was written; no bytes when it is larger than `bytes_max`.
pub(crate) fn read_file(
    root: &path::Path,
    file: &path::Path,
    bytes_max: u64,
) -> io::Result<(Option<Bytes>, SystemTime)> {
    refuse_symlinks(root, file)?;
    let mut file = File::open(file)?;
    let meta = file.metadata()?;
    if meta.is_dir() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let modified = meta.modified()?;
    if meta.len() > bytes_max {
        return Ok((None, modified));
    }
    // One byte more, so that the end of the file is found without growing.
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0) + 1);
    file.read_to_end(&mut bytes)?;
    Ok((Some(bytes.into()), modified))
}

/// A small object as the answer to a plain get.
pub(crate) fn whole(at: &Path, bytes: Bytes, modified: SystemTime) -> GetResult {
    let size = bytes.len() as u64;
    let meta = ObjectMeta {
        location: at.clone(),
        last_modified: modified.into(),
        size,
        e_tag: None,
        version: None,
    };
    let payload = GetResultPayload::Stream(stream::once(async { Ok(bytes) }).boxed());
    GetResult { payload, meta, range: 0..size, attributes: Attributes::default() }
}
