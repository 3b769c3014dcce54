//! Frames in the bytes of a stream: server-sent events by the WHATWG's rules, or lines of JSON. Called by `reader`.
//!
//! A decoder belongs to one connection. What a cut connection has left of a frame is never used.

use serde::Deserialize;

/// How frames are delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Framing {
    #[default]
    Sse,
    Ndjson,
}

/// A whole frame.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    pub event: Option<String>,
    /// The id in this frame, not an earlier one's.
    pub id: Option<String>,
    pub data: String,
}

/// Turns bytes into frames.
#[derive(Debug, Default)]
pub struct Decoder {
    framing: Framing,
    /// An unfinished line.
    line: Vec<u8>,
    event: Option<String>,
    id: Option<String>,
    data: Option<String>,
}

impl Decoder {
    pub fn new(framing: Framing) -> Self {
        Self {
            framing,
            ..Self::default()
        }
    }

    /// Returns the frames that these bytes complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Frame> {
        let mut frames = Vec::new();
        for byte in bytes {
            if *byte != b'\n' {
                self.line.push(*byte);
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            let line = String::from_utf8_lossy(line);
            frames.extend(match self.framing {
                Framing::Ndjson => json_line(&line),
                Framing::Sse => self.sse_line(&line),
            });
        }
        frames
    }

    fn sse_line(&mut self, line: &str) -> Option<Frame> {
        if line.is_empty() {
            let (event, id) = (self.event.take(), self.id.take());
            return self.data.take().map(|data| Frame { event, id, data });
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => self.event = Some(value.to_owned()),
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            // Comments, `retry`, and fields to come.
            _ => {}
        }
        None
    }
}

fn json_line(line: &str) -> Option<Frame> {
    let data = line.trim();
    (!data.is_empty()).then(|| Frame {
        data: data.to_owned(),
        ..Frame::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str =
        "retry: 2000\n\n: hb\n\nid: 1\ndata: {\"a\":\"é\"}\n\nevent: end\r\ndata: one\r\ndata:two\r\n\r\ndata: cut";

    #[test]
    fn frames_are_the_same_at_every_split() {
        let whole = Decoder::new(Framing::Sse).push(STREAM.as_bytes());
        assert_eq!(whole.len(), 2);
        assert_eq!(
            (whole[0].id.as_deref(), whole[0].data.as_str()),
            (Some("1"), "{\"a\":\"é\"}")
        );
        assert_eq!(
            (whole[1].event.as_deref(), whole[1].data.as_str()),
            (Some("end"), "one\ntwo")
        );
        for at in 0..STREAM.len() {
            let mut decoder = Decoder::new(Framing::Sse);
            let mut frames = decoder.push(&STREAM.as_bytes()[..at]);
            frames.extend(decoder.push(&STREAM.as_bytes()[at..]));
            assert_eq!(frames, whole, "split at {at}");
        }
    }

    #[test]
    fn the_rest_of_a_cut_frame_is_not_used() {
        let mut decoder = Decoder::new(Framing::Sse);
        assert!(decoder.push(b"id: 2\ndata: half").is_empty());
        // The next connection.
        let mut decoder = Decoder::new(Framing::Sse);
        let frames = decoder.push(b"\ndata: whole\n\n");
        assert_eq!(frames.len(), 1);
        assert_eq!(frames[0].id, None);
    }

    #[test]
    fn lines_of_json_are_frames() {
        let frames = Decoder::new(Framing::Ndjson).push(b"{\"n\":1}\n\n{\"n\":2}\r\n{\"n\"");
        let data: Vec<&str> = frames.iter().map(|frame| frame.data.as_str()).collect();
        assert_eq!(data, ["{\"n\":1}", "{\"n\":2}"]);
    }
}
