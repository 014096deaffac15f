//! An Arrow IPC stream that comes in pieces: cut into whole messages before anything is decoded, so that a length
//! that is no length is seen before it is believed, and an end that is none is known as such.

use std::collections::VecDeque;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::root_as_message;

/// Before each message.
const CONTINUATION: [u8; 4] = [0xff; 4];
const PREFIX_BYTES: usize = 8;
/// Longest metadata of a message.
const METADATA_BYTES_MAX: usize = 64 << 20;
/// Longest body of a message.
const BODY_BYTES_MAX: i64 = 1 << 30;

/// Decodes a stream.
#[derive(Debug, Default)]
pub struct ArrowStream {
    /// What has come and is not decoded: never more than a message, and what came with its end.
    pending: Vec<u8>,
    decoder: StreamDecoder,
    ready: VecDeque<RecordBatch>,
    has_ended: bool,
    messages: u64,
}

/// Why bytes are no stream.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    #[error("message {0} does not begin like an Arrow IPC message")]
    NoMessage(u64),
    #[error("message {message} has the invalid length {bytes}")]
    Length { message: u64, bytes: i64 },
    #[error("there are bytes after the end of the stream")]
    Trailing,
    #[error("message {message} cannot be decoded: {reason}")]
    Undecodable { message: u64, reason: String },
}

impl ArrowStream {
    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The columns, once they are known.
    pub fn schema(&self) -> Option<SchemaRef> {
        self.decoder.schema()
    }

    /// True if the stream ended as one does; also if nothing came at all.
    pub fn is_whole(&self) -> bool {
        self.has_ended || self.messages == 0 && self.pending.is_empty()
    }

    /// The next rows that have come as a whole; `None` if more bytes are needed.
    pub fn next(&mut self) -> Result<Option<RecordBatch>, StreamError> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            if self.has_ended && !self.pending.is_empty() {
                return Err(StreamError::Trailing);
            }
            let Some(length) = self.length()? else { return Ok(None) };
            let mut message = Buffer::from(self.pending.drain(..length).collect::<Vec<u8>>());
            self.messages += 1;
            self.has_ended = length == PREFIX_BYTES;
            // A message without a body is decoded only when the next one comes, and then first.
            while !message.is_empty() {
                let decoded = self.decoder.decode(&mut message).map_err(|error| {
                    StreamError::Undecodable { message: self.messages, reason: error.to_string() }
                })?;
                self.ready.extend(decoded);
            }
        }
    }

    /// The length of the message at the start, once all of it has come; that of a prefix for the end.
    fn length(&self) -> Result<Option<usize>, StreamError> {
        let number = self.messages + 1;
        let started = &self.pending[..self.pending.len().min(CONTINUATION.len())];
        if started != &CONTINUATION[..started.len()] {
            return Err(StreamError::NoMessage(number));
        }
        let Some(size) = self.pending.get(CONTINUATION.len()..PREFIX_BYTES) else {
            return Ok(None);
        };
        let size = i32::from_le_bytes(size.try_into().unwrap_or_default());
        let metadata = usize::try_from(size).ok().filter(|size| *size <= METADATA_BYTES_MAX);
        let Some(metadata) = metadata else {
            return Err(StreamError::Length { message: number, bytes: size.into() });
        };
        let Some(found) = self.pending.get(PREFIX_BYTES..PREFIX_BYTES + metadata) else {
            return Ok(None);
        };
        if metadata == 0 {
            return Ok(Some(PREFIX_BYTES));
        }
        let message = root_as_message(found).map_err(|error| StreamError::Undecodable {
            message: number,
            reason: error.to_string(),
        })?;
        let body = message.bodyLength();
        if !(0..=BODY_BYTES_MAX).contains(&body) {
            return Err(StreamError::Length { message: number, bytes: body });
        }
        let length = PREFIX_BYTES + metadata + body as usize;
        Ok((self.pending.len() >= length).then_some(length))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};
    use arrow::ipc::writer::StreamWriter;

    use super::*;

    fn stream(rows: &[usize]) -> Vec<u8> {
        let batch = |rows: &usize| {
            let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..*rows as i64));
            RecordBatch::try_from_iter([("n", column)]).unwrap()
        };
        let batches: Vec<_> = rows.iter().map(batch).collect();
        let schema = batch(&0).schema();
        let mut writer = StreamWriter::try_new(Vec::new(), &schema).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.into_inner().unwrap()
    }

    fn read(bytes: &[u8], piece: usize) -> Result<(Vec<usize>, bool), StreamError> {
        let (mut stream, mut rows) = (ArrowStream::default(), Vec::new());
        for piece in bytes.chunks(piece) {
            stream.push(piece);
            while let Some(batch) = stream.next()? {
                rows.push(batch.num_rows());
            }
        }
        Ok((rows, stream.is_whole()))
    }

    #[test]
    fn a_stream_is_read_however_it_is_cut_and_its_end_is_distinguished_from_a_cut() {
        for rows in [vec![], vec![3], vec![0, 5, 0], vec![1000, 1, 0]] {
            let bytes = stream(&rows);
            for piece in [1, 7, 4096, bytes.len()] {
                assert_eq!(read(&bytes, piece).unwrap(), (rows.clone(), true), "{rows:?} {piece}");
            }
            for cut in 1..bytes.len() {
                assert!(!read(&bytes[..cut], 64).unwrap().1, "{rows:?} cut at {cut}");
            }
        }
        assert!(read(&[], 1).unwrap().1);
    }

    #[test]
    fn what_is_no_stream_is_refused_before_its_lengths_are_believed() {
        let refused = |bytes: &[u8]| read(bytes, 4096).unwrap_err().to_string();
        assert!(refused(b"row_id,score").contains("message 1 does not begin"));
        let long = [[0xff; 4], [0xff, 0xff, 0xff, 0x7f]].concat();
        assert!(refused(&long).contains("length 2147483647"));
        let twice = [stream(&[1]), stream(&[1])].concat();
        assert!(refused(&twice).contains("after the end of the stream"));
        let mut broken = stream(&[3]);
        broken[20..60].fill(0x5a);
        assert!(refused(&broken).contains("message 1"));
    }
}
