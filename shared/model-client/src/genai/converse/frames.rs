//! Reads AWS's event stream encoding: bytes as events. <https://smithy.io/2.0/aws/amazon-eventstream.html>

use aws_smithy_eventstream::frame::{DecodedFrame, MessageFrameDecoder};
use bytes::BytesMut;

/// Maximum size of a message, in bytes: the encoding's own.
const MESSAGE_MAX_BYTES: usize = 16 << 20;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Such as `contentBlockDelta` or `throttlingException`.
    pub(super) name: String,
    pub(super) is_exception: bool,
    pub(super) payload: Vec<u8>,
}

/// The bytes that arrived, and the messages in them.
#[derive(Default)]
pub(super) struct Frames {
    buffer: BytesMut,
    decoder: MessageFrameDecoder,
}

impl Frames {
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next message. None: more bytes are needed. Err: a length or a checksum is wrong.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, String> {
        let decoded = self.decoder.decode_frame(&mut self.buffer);
        let DecodedFrame::Complete(message) = decoded.map_err(|error| error.to_string())? else {
            // The decoder checks a length only when all of its bytes are there.
            if self.buffer.len() > MESSAGE_MAX_BYTES {
                return Err(format!("a message is longer than {MESSAGE_MAX_BYTES} bytes"));
            }
            return Ok(None);
        };
        let header = |wanted: &str| {
            let found = message
                .headers()
                .iter()
                .find(|header| header.name().as_str() == wanted)?;
            let text = found.value().as_string().ok()?;
            Some(text.as_str().to_owned())
        };
        let exception = header(":exception-type").or_else(|| header(":error-code"));
        Ok(Some(Frame {
            is_exception: exception.is_some() || header(":message-type").is_some_and(|kind| kind != "event"),
            name: exception.or_else(|| header(":event-type")).unwrap_or_default(),
            payload: message.payload().to_vec(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use aws_smithy_eventstream::frame::write_message_to;
    use aws_smithy_types::event_stream::{Header, HeaderValue, Message};

    use super::*;

    fn message(headers: &[(&'static str, &'static str)]) -> Vec<u8> {
        let mut message = Message::new("{}".as_bytes()).add_header(Header::new("flag", HeaderValue::Bool(true)));
        for (name, value) in headers {
            message = message.add_header(Header::new(*name, HeaderValue::String((*value).into())));
        }
        let mut bytes = Vec::new();
        write_message_to(&message, &mut bytes).expect("a message");
        bytes
    }

    #[test]
    fn a_message_is_taken_when_all_of_it_is_there() {
        let event = message(&[(":message-type", "event"), (":event-type", "messageStop")]);
        let exception = message(&[
            (":message-type", "exception"),
            (":exception-type", "throttlingException"),
        ]);
        let mut frames = Frames::default();
        let mut taken = Vec::new();
        for byte in [event, exception].concat() {
            frames.extend(&[byte]);
            taken.extend(frames.next().expect("sound bytes"));
        }
        let frame = |name: &str, is_exception| Frame {
            name: name.to_owned(),
            is_exception,
            payload: b"{}".to_vec(),
        };
        assert_eq!(taken, [frame("messageStop", false), frame("throttlingException", true)]);
    }

    #[test]
    fn a_byte_that_was_changed_is_found() {
        let whole = message(&[(":event-type", "messageStop")]);
        for at in 0..whole.len() {
            let mut broken = whole.clone();
            broken[at] ^= 1;
            let mut frames = Frames::default();
            frames.extend(&broken);
            // A longer message is waited for.
            assert!(!matches!(frames.next(), Ok(Some(_))), "byte {at}");
        }
    }

    #[test]
    fn a_message_that_never_ends_is_refused() {
        let mut frames = Frames::default();
        frames.extend(&u32::MAX.to_be_bytes());
        frames.extend(&vec![0; MESSAGE_MAX_BYTES]);
        assert_eq!(frames.next(), Ok(None));
        frames.extend(&[0; 16]);
        assert!(frames.next().is_err());
    }
}
