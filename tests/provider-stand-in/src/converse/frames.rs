//! Events as bytes: AWS's event stream encoding.
//! <https://smithy.io/2.0/aws/amazon-eventstream.html>

/// A header whose value is a text has this type.
const TEXT: u8 = 7;
/// Of the lengths and the three checksums of a message [bytes].
const AROUND_BYTES: usize = 16;
/// CRC-32 of IEEE 802.3, bits reversed.
const POLYNOMIAL: u32 = 0xEDB8_8320;

/// A frame, an event's name and its JSON, as a message. A name that begins with `!` is an exception's.
pub(crate) fn encode(frame: &str) -> Vec<u8> {
    let (name, payload) = frame.trim_end().split_once(' ').unwrap_or((frame, ""));
    let mut headers = Vec::new();
    match name.strip_prefix('!') {
        Some(exception) => {
            header(&mut headers, ":exception-type", exception);
            header(&mut headers, ":content-type", "application/json");
            header(&mut headers, ":message-type", "exception");
        }
        None => {
            header(&mut headers, ":event-type", name);
            header(&mut headers, ":content-type", "application/json");
            header(&mut headers, ":message-type", "event");
        }
    }
    let mut message = Vec::new();
    for length in [AROUND_BYTES + headers.len() + payload.len(), headers.len()] {
        message.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    }
    message.extend(checksum(&message).to_be_bytes());
    message.extend(headers);
    message.extend(payload.as_bytes());
    message.extend(checksum(&message).to_be_bytes());
    message
}

fn header(headers: &mut Vec<u8>, name: &str, value: &str) {
    headers.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
    headers.extend(name.as_bytes());
    headers.push(TEXT);
    headers.extend(u16::try_from(value.len()).unwrap_or(u16::MAX).to_be_bytes());
    headers.extend(value.as_bytes());
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

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(checksum(b"123456789"), 0xCBF4_3926);
    }
}
