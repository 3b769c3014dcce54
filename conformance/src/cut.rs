//! Where a connection is cut: at any byte, inside a character, inside a frame, or between two frames. Called by `reader`.

use serde::Serialize;

/// After this many bytes without a fitting one, the connection is cut anyway: a stream may be all ASCII.
const PATIENCE_BYTES: usize = 4_096;
/// The first byte of a character of several bytes.
const LEAD: std::ops::RangeInclusive<u8> = 0xc2..=0xf4;

/// A kind of place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cut {
    AnyByte,
    InCharacter,
    InFrame,
    AfterFrame,
}

impl Cut {
    pub const ALL: [Self; 4] = [Self::AnyByte, Self::InCharacter, Self::InFrame, Self::AfterFrame];
}

/// A cut that is still to come.
#[derive(Debug, Clone, Copy)]
pub struct Cutter {
    cut: Cut,
    /// Bytes that pass before.
    after: usize,
    waited: usize,
    previous: u8,
}

impl Cutter {
    pub fn new(cut: Cut, after: usize) -> Self {
        Self {
            cut,
            after,
            waited: 0,
            previous: 0,
        }
    }

    /// How many of these bytes still pass. None: all, and the cut is still to come.
    pub fn place(&mut self, data: &[u8]) -> Option<usize> {
        for (at, byte) in data.iter().copied().enumerate() {
            let previous = std::mem::replace(&mut self.previous, byte);
            if self.after > 0 {
                self.after -= 1;
                continue;
            }
            self.waited += 1;
            let fits = match self.cut {
                Cut::AnyByte => true,
                Cut::InCharacter => LEAD.contains(&byte),
                Cut::InFrame => byte != b'\n' && byte != b'\r',
                Cut::AfterFrame => byte == b'\n' && previous == b'\n',
            };
            if fits || self.waited > PATIENCE_BYTES {
                return Some(at + 1);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = "data: 語\n\ndata: b\n\n".as_bytes();

    #[test]
    fn each_kind_has_its_place() {
        let place = |cut, after| Cutter::new(cut, after).place(STREAM);
        assert_eq!(place(Cut::AnyByte, 0), Some(1));
        assert_eq!(place(Cut::AnyByte, 5), Some(6));
        assert_eq!(place(Cut::InCharacter, 0), Some(7));
        assert!(std::str::from_utf8(&STREAM[..7]).is_err());
        assert_eq!(place(Cut::AfterFrame, 0), Some(11));
        assert_eq!(place(Cut::InFrame, 9), Some(12));
        assert_eq!(place(Cut::InCharacter, 8), None);
    }

    #[test]
    fn a_cut_is_found_over_several_pieces() {
        for piece in 1..STREAM.len() {
            let mut cutter = Cutter::new(Cut::AfterFrame, 0);
            let mut passed = 0;
            for data in STREAM.chunks(piece) {
                match cutter.place(data) {
                    Some(count) => {
                        passed += count;
                        break;
                    }
                    None => passed += data.len(),
                }
            }
            assert_eq!(passed, 11, "pieces of {piece}");
        }
    }

    #[test]
    fn a_stream_without_such_a_place_is_cut_anyway() {
        let mut cutter = Cutter::new(Cut::InCharacter, 0);
        assert_eq!(cutter.place(&[b'a'; 5_000]), Some(PATIENCE_BYTES + 1));
    }
}
