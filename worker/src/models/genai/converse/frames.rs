//! Bytes as events: AWS's event stream encoding, with its checksums. <https://smithy.io/2.0/aws/amazon-eventstream.html>

/// The two lengths of a message [bytes].
const LENGTHS: usize = 8;
/// The lengths with their checksum [bytes].
const PRELUDE: usize = 12;
/// A checksum [bytes].
const CHECKSUM: usize = 4;
/// A longer message is a broken one; the encoding allows 16 MiB [bytes].
const MESSAGE_MAX: usize = 16 << 20;
/// CRC-32 of IEEE 802.3, bits reversed.
const POLYNOMIAL: u32 = 0xEDB8_8320;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// `contentBlockDelta`, `throttlingException`.
    pub(super) name: String,
    pub(super) is_exception: bool,
    pub(super) payload: Vec<u8>,
}

/// The next message, taken from the buffer. None: more bytes are needed.
pub(super) fn take(buffer: &mut Vec<u8>) -> Result<Option<Frame>, &'static str> {
    let (Some(total), Some(of_headers)) = (number(buffer, 0), number(buffer, LENGTHS / 2)) else {
        return Ok(None);
    };
    let (total, of_headers) = (total as usize, of_headers as usize);
    if !(PRELUDE + CHECKSUM..=MESSAGE_MAX).contains(&total) || of_headers > total - PRELUDE - CHECKSUM {
        return Err("a message of the event stream has an impossible length");
    }
    if buffer.len() < total {
        return Ok(None);
    }
    let rest = buffer.split_off(total);
    let message = std::mem::replace(buffer, rest);
    let end = total - CHECKSUM;
    let holds = |at: usize| number(&message, at) == Some(checksum(&message[..at]));
    if !holds(LENGTHS) || !holds(end) {
        return Err("a message of the event stream has a wrong checksum");
    }
    let headers =
        headers(&message[PRELUDE..PRELUDE + of_headers]).ok_or("a message of the event stream has a broken header")?;
    let value = |wanted: &str| {
        headers
            .iter()
            .find(|(name, _)| name == wanted)
            .map(|(_, value)| value.clone())
    };
    let exception = value(":exception-type").or_else(|| value(":error-code"));
    Ok(Some(Frame {
        is_exception: exception.is_some() || value(":message-type").is_some_and(|kind| kind != "event"),
        name: exception.or_else(|| value(":event-type")).unwrap_or_default(),
        payload: message[PRELUDE + of_headers..end].to_vec(),
    }))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let four: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_be_bytes(four))
}

/// Those whose value is a text, by name. None: they are cut off.
fn headers(mut bytes: &[u8]) -> Option<Vec<(String, String)>> {
    let mut headers = Vec::new();
    while let Some((length, rest)) = bytes.split_first() {
        let (name, rest) = rest.split_at_checked(usize::from(*length))?;
        let (kind, rest) = rest.split_first()?;
        // Flags, numbers of 1, 2, 4 and 8 bytes, bytes, texts, times, UUIDs.
        let length = match kind {
            0 | 1 => 0,
            2 => 1,
            3 => 2,
            4 => 4,
            5 | 8 => 8,
            6 | 7 => 2 + usize::from(u16::from_be_bytes([*rest.first()?, *rest.get(1)?])),
            9 => 16,
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(length)?;
        if *kind == 7 {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            headers.push((text(name), text(value.get(2..)?)));
        }
        bytes = rest;
    }
    Some(headers)
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ (POLYNOMIAL & (sum & 1).wrapping_neg());
        }
    }
    !sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(headers: &[u8], payload: &[u8]) -> Vec<u8> {
        let total = PRELUDE + headers.len() + payload.len() + CHECKSUM;
        let mut message = Vec::new();
        for length in [total, headers.len()] {
            message.extend(u32::try_from(length).expect("short").to_be_bytes());
        }
        message.extend(checksum(&message).to_be_bytes());
        message.extend([headers, payload].concat());
        message.extend(checksum(&message).to_be_bytes());
        message
    }

    #[test]
    fn a_message_is_taken_when_all_of_it_is_there() {
        // A flag, then the name of the event.
        let mut headers = b"\x04flag\x00".to_vec();
        headers.extend(b"\x0b:event-type\x07\x00\x0bmessageStop");
        let whole = message(&headers, b"{}");
        let mut buffer = whole[..whole.len() - 1].to_vec();
        assert_eq!(take(&mut buffer), Ok(None));
        buffer.push(whole[whole.len() - 1]);
        buffer.extend(b"next");
        let frame = Frame {
            name: "messageStop".to_owned(),
            is_exception: false,
            payload: b"{}".to_vec(),
        };
        assert_eq!(take(&mut buffer), Ok(Some(frame)));
        assert_eq!(buffer, b"next");
    }

    #[test]
    fn a_byte_that_was_changed_is_found() {
        let whole = message(b"\x0b:event-type\x07\x00\x0bmessageStop", b"{}");
        for at in 0..whole.len() {
            let mut broken = whole.clone();
            broken[at] ^= 1;
            // A longer message is waited for.
            assert!(!matches!(take(&mut broken), Ok(Some(_))), "byte {at}");
        }
    }

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(checksum(b"123456789"), 0xCBF4_3926);
    }
}
