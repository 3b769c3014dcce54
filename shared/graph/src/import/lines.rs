//! Reads lines with a maximum length, so that no file can exhaust memory. Called by the import.

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// Maximum size of one line, in bytes, without its line break.
pub const MAX_LINE_BYTES: usize = 1024 * 1024;

/// The result of [`Lines::next`].
pub enum LineRead<'lines> {
    Line(&'lines [u8]),
    TooLong,
}

/// The lines of a reader, each at most [`MAX_LINE_BYTES`] in memory; the rest of a longer one is skipped.
pub struct Lines<R> {
    source: R,
    line: Vec<u8>,
    /// Number of bytes read so far, including line breaks.
    bytes: u64,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    pub fn new(source: R) -> Lines<R> {
        Lines {
            source,
            line: Vec::new(),
            bytes: 0,
        }
    }

    /// Returns the next line, and the number of bytes read up to its end.
    pub async fn next(&mut self) -> std::io::Result<Option<(LineRead<'_>, u64)>> {
        let first = self.bytes == 0;
        let mut too_long = false;
        let mut any = false;
        self.line.clear();
        loop {
            let buffer = self.source.fill_buf().await?;
            if buffer.is_empty() {
                break;
            }
            any = true;
            let line_end = buffer.iter().position(|byte| *byte == b'\n');
            let part = &buffer[..line_end.unwrap_or(buffer.len())];
            too_long |= self.line.len() + part.len() > MAX_LINE_BYTES;
            if !too_long {
                self.line.extend_from_slice(part);
            }
            let used = part.len() + usize::from(line_end.is_some());
            self.bytes += used as u64;
            self.source.consume(used);
            if line_end.is_some() {
                break;
            }
        }
        if !any {
            return Ok(None);
        }
        if too_long {
            return Ok(Some((LineRead::TooLong, self.bytes)));
        }
        // Windows editors put a byte order mark before the first line.
        let line = self.line.as_slice();
        let line = if first {
            line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line)
        } else {
            line
        };
        Ok(Some((LineRead::Line(line), self.bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(text: &[u8], capacity: usize) -> Vec<Option<usize>> {
        let mut lines = Lines::new(tokio::io::BufReader::with_capacity(capacity, text));
        let mut found = Vec::new();
        while let Some((line, _)) = lines.next().await.unwrap() {
            found.push(match line {
                LineRead::Line(line) => Some(line.len()),
                LineRead::TooLong => None,
            });
        }
        assert_eq!(lines.bytes, text.len() as u64);
        found
    }

    #[tokio::test]
    async fn lines_are_whole_in_any_buffer_and_need_no_final_break() {
        for capacity in [1, 3, 100] {
            assert_eq!(read(b"ab\n\ncde", capacity).await, [Some(2), Some(0), Some(3)]);
            assert_eq!(read(b"\xef\xbb\xbfab\n", capacity).await, [Some(2)]);
            assert!(read(b"", capacity).await.is_empty());
        }
    }

    #[tokio::test]
    async fn a_line_over_the_limit_is_read_past() {
        let mut text = vec![b'x'; MAX_LINE_BYTES];
        text.extend_from_slice(b"\n");
        text.extend(vec![b'y'; MAX_LINE_BYTES + 1]);
        text.extend_from_slice(b"\nz\n");
        assert_eq!(read(&text, 8192).await, [Some(MAX_LINE_BYTES), None, Some(1)]);
    }
}
