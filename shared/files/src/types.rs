//! Detects a file's type from its content: a table of signatures, piecewise validation of text, and image sizes from
//! headers. Called for each upload.
//!
//! Invariant: a file classified as image, PDF or audio begins like one, whatever its sender or name says; SVG and HTML
//! are text.

/// How models read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    Image,
    Pdf,
    Audio,
    Text,
}

/// The file types accepted for upload, in words.
pub const TAKEN: &str =
    "images (PNG, JPEG, GIF, WebP), PDF, audio (MP3, WAV, FLAC, Ogg, AAC, M4A, AIFF, WebM) and text in UTF-8";
/// Maximum width and height of an image, in pixels.
pub const IMAGE_SIDE_MAX: u32 = 16_384;
/// Maximum size of an image, in pixels: a small file may unpack to a huge one.
pub const IMAGE_PIXELS_MAX: u64 = 64_000_000;

/// Maximum length of a media type that is read, in characters.
const TYPE_MAX_CHARS: usize = 100;

/// Media types that mean the same as another one.
const ALIASES: [(&str, &str); 18] = [
    ("image/jpg", "image/jpeg"),
    ("image/pjpeg", "image/jpeg"),
    ("image/x-png", "image/png"),
    ("application/x-pdf", "application/pdf"),
    ("audio/mp3", "audio/mpeg"),
    ("audio/x-mp3", "audio/mpeg"),
    ("audio/x-mpeg", "audio/mpeg"),
    ("audio/x-wav", "audio/wav"),
    ("audio/wave", "audio/wav"),
    ("audio/vnd.wave", "audio/wav"),
    ("audio/x-flac", "audio/flac"),
    ("audio/vorbis", "audio/ogg"),
    ("audio/opus", "audio/ogg"),
    ("application/ogg", "audio/ogg"),
    ("audio/x-m4a", "audio/mp4"),
    ("audio/m4a", "audio/mp4"),
    ("audio/x-aiff", "audio/aiff"),
    ("video/webm", "audio/webm"),
];
/// Media types of text that do not begin with `text/` or end with `+json` or `+xml`.
const TEXTS: [&str; 13] = [
    "application/json",
    "application/x-ndjson",
    "application/xml",
    "application/yaml",
    "application/x-yaml",
    "application/toml",
    "application/javascript",
    "application/x-javascript",
    "application/typescript",
    "application/x-sh",
    "application/sql",
    "application/graphql",
    "image/svg+xml",
];
/// The media type of a text whose sender names none, by the end of its name.
const BY_EXTENSION: [(&str, &str); 10] = [
    ("md", "text/markdown"),
    ("csv", "text/csv"),
    ("tsv", "text/tab-separated-values"),
    ("json", "application/json"),
    ("xml", "application/xml"),
    ("svg", "image/svg+xml"),
    ("html", "text/html"),
    ("htm", "text/html"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
];
/// The ends of names of TypeScript.
const TYPESCRIPT: [&str; 3] = ["ts", "mts", "cts"];
const PLAIN: &str = "text/plain";
/// Media types sent by clients that don't know the type.
const UNKNOWN: [&str; 3] = [
    "application/octet-stream",
    "binary/octet-stream",
    "application/x-www-form-urlencoded",
];

/// The class of a stored media type. None: no model reads it.
pub fn class_of(media_type: &str) -> Option<Class> {
    match media_type {
        "image/png" | "image/jpeg" | "image/gif" | "image/webp" => Some(Class::Image),
        "application/pdf" => Some(Class::Pdf),
        other if other.starts_with("audio/") => Some(Class::Audio),
        other if is_text(other) => Some(Class::Text),
        _ => None,
    }
}

fn is_text(media_type: &str) -> bool {
    media_type.starts_with("text/")
        || media_type.ends_with("+json")
        || media_type.ends_with("+xml")
        || TEXTS.contains(&media_type)
}

/// The result of reading a file's signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signature {
    /// An accepted type.
    Known(&'static str),
    /// A rejected type, in words.
    Foreign(&'static str),
    /// Text, or unknown.
    None,
}

/// Reads the signature at the beginning of a file.
pub fn signature(head: &[u8]) -> Signature {
    let at = |from: usize, magic: &[u8]| head.get(from..from + magic.len()) == Some(magic);
    let known = [
        (at(0, b"\x89PNG\r\n\x1a\n"), "image/png"),
        (at(0, b"\xff\xd8\xff"), "image/jpeg"),
        (at(0, b"GIF87a") || at(0, b"GIF89a"), "image/gif"),
        (at(0, b"RIFF") && at(8, b"WEBP"), "image/webp"),
        (at(0, b"%PDF-"), "application/pdf"),
        (at(0, b"RIFF") && at(8, b"WAVE"), "audio/wav"),
        (at(0, b"ID3"), "audio/mpeg"),
        (at(0, b"fLaC"), "audio/flac"),
        (at(0, b"OggS"), "audio/ogg"),
        (at(0, b"FORM") && (at(8, b"AIFF") || at(8, b"AIFC")), "audio/aiff"),
        (at(4, b"ftypM4A ") || at(4, b"ftypM4B "), "audio/mp4"),
        (at(0, b"\x1a\x45\xdf\xa3"), "audio/webm"),
    ];
    if let Some((_, media_type)) = known.into_iter().find(|(is_it, _)| *is_it) {
        return Signature::Known(media_type);
    }
    if at(0, b"\xff\xfe") || at(0, b"\xfe\xff") {
        return Signature::Foreign("text in UTF-16 (save it as UTF-8)");
    }
    // Frames of MPEG audio begin with eleven bits; the layer distinguishes AAC from MP3. (0xFF begins no text.)
    if let [0xff, second, ..] = head
        && second & 0xe0 == 0xe0
    {
        return match second & 0x06 {
            0 => Signature::Known("audio/aac"),
            _ => Signature::Known("audio/mpeg"),
        };
    }
    let foreign = [
        (
            at(0, b"PK\x03\x04") || at(0, b"PK\x05\x06"),
            "a ZIP archive or an Office document",
        ),
        (at(0, b"\xd0\xcf\x11\xe0"), "an old Office document"),
        (at(0, b"\x1f\x8b"), "a gzip archive"),
        (at(0, b"7z\xbc\xaf\x27\x1c"), "a 7-Zip archive"),
        (at(0, b"Rar!"), "a RAR archive"),
        (at(0, b"\x7fELF") || at(0, b"MZ\x90"), "a program"),
        (at(4, b"ftyp"), "a video or a HEIF image"),
        (at(0, b"RIFF") && at(8, b"AVI "), "a video"),
        (at(0, b"II*\0") || at(0, b"MM\0*"), "a TIFF image"),
        (at(0, b"SQLite format 3\0"), "a SQLite database"),
    ];
    match foreign.into_iter().find(|(is_it, _)| *is_it) {
        Some((_, words)) => Signature::Foreign(words),
        None => Signature::None,
    }
}

/// Checks text that arrives in pieces: UTF-8 without control characters.
#[derive(Debug, Default)]
pub struct TextCheck {
    /// The beginning of a character that continues in the next piece.
    rest: Vec<u8>,
}

impl TextCheck {
    /// Returns whether the next piece is still text.
    pub fn goes_on(&mut self, piece: &[u8]) -> bool {
        let joined;
        let bytes = if self.rest.is_empty() {
            piece
        } else {
            joined = [self.rest.as_slice(), piece].concat();
            joined.as_slice()
        };
        let (text, rest) = match std::str::from_utf8(bytes) {
            Ok(text) => (text, &[][..]),
            Err(error) if error.error_len().is_none() => {
                let (valid, rest) = bytes.split_at(error.valid_up_to());
                (std::str::from_utf8(valid).unwrap_or_default(), rest)
            }
            Err(_) => return false,
        };
        let is_fine = !text
            .bytes()
            .any(|byte| byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c | 0x1b));
        self.rest = rest.to_vec();
        is_fine
    }

    /// Returns whether it ended with a complete character.
    pub fn is_whole(&self) -> bool {
        self.rest.is_empty()
    }
}

/// The reason why a file is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TypeFault {
    #[error("{0}")]
    NotTaken(String),
    #[error("{0}")]
    Disagrees(String),
    #[error("{0}")]
    Image(String),
}

/// Normalizes a declared media type: without parameters, by its usual name. None: the sender does not know it.
fn normalized(declared: Option<&str>) -> Option<String> {
    let essence = declared?.split(';').next()?.trim().to_ascii_lowercase();
    let is_name = |char: char| char.is_ascii_alphanumeric() || matches!(char, '/' | '+' | '-' | '.' | '_');
    if !(1..=TYPE_MAX_CHARS).contains(&essence.len())
        || !essence.chars().all(is_name)
        || UNKNOWN.contains(&essence.as_str())
    {
        return None;
    }
    let usual = ALIASES.iter().find(|(alias, _)| *alias == essence);
    Some(usual.map_or(essence, |(_, usual)| (*usual).to_owned()))
}

/// Returns whether a file of this declared type and name is accepted, before its content is read. A type that means that the sender does not
/// know it is accepted, and so is a name of text: systems have other types for some of them.
pub fn is_taken(declared: &str, name: &str) -> bool {
    let Some(media_type) = normalized(Some(declared)) else {
        return true;
    };
    let is_name_of_text = |extension: String| {
        BY_EXTENSION.iter().any(|(known, _)| *known == extension) || TYPESCRIPT.contains(&extension.as_str())
    };
    class_of(&media_type).is_some() || extension_of(name).is_some_and(is_name_of_text)
}

fn extension_of(name: &str) -> Option<String> {
    let (_, extension) = name.rsplit_once('.')?;
    Some(extension.to_ascii_lowercase())
}

/// Returns the media type of a file with this beginning, if it matches the declared one. `Ok(None)`: it has no
/// signature, and must be text.
///
/// # Errors
/// The type is not accepted or differs from the declared one, or the image is too large.
pub fn of_beginning(head: &[u8], declared: Option<&str>) -> Result<Option<&'static str>, TypeFault> {
    let declared_type = normalized(declared);
    match signature(head) {
        Signature::None => Ok(None),
        Signature::Foreign(words) => Err(TypeFault::NotTaken(format!(
            "the file is {words}, which is not accepted; accepted are {TAKEN}"
        ))),
        Signature::Known(found) => {
            if let Some(declared_type) = declared_type.filter(|declared_type| declared_type != found) {
                return Err(TypeFault::Disagrees(format!(
                    "the file was sent as {declared_type}, but its content is {found}; send it with the correct type"
                )));
            }
            if class_of(found) == Some(Class::Image) {
                check_image(head, found).map_err(TypeFault::Image)?;
            }
            Ok(Some(found))
        }
    }
}

/// Returns the media type of a text file.
///
/// # Errors
/// Its sender declares another type.
pub fn of_text(declared: Option<&str>, name: &str) -> Result<String, TypeFault> {
    let extension = extension_of(name);
    let by_name = || {
        let known = extension.as_deref().and_then(|extension| {
            BY_EXTENSION
                .iter()
                .find_map(|(known, media_type)| (*known == extension).then_some(*media_type))
        });
        known.unwrap_or(PLAIN).to_owned()
    };
    let Some(declared_type) = normalized(declared) else {
        return Ok(by_name());
    };
    if is_text(&declared_type) {
        return Ok(declared_type);
    }
    // Systems that know `.ts` as a video extension send TypeScript this way.
    let is_typescript = declared_type.starts_with("video/")
        && extension
            .as_deref()
            .is_some_and(|extension| TYPESCRIPT.contains(&extension));
    let names_another = ["image/", "audio/", "video/", "font/"]
        .iter()
        .any(|kind| declared_type.starts_with(kind))
        || matches!(declared_type.as_str(), "application/pdf" | "application/zip");
    if names_another && !is_typescript {
        return Err(TypeFault::Disagrees(format!(
            "the file was sent as {declared_type}, but its content is text; send it with the correct type"
        )));
    }
    Ok(by_name())
}

/// Err: the file is neither text nor of a known type.
pub fn not_text(declared: Option<&str>) -> TypeFault {
    match normalized(declared) {
        Some(declared_type) if class_of(&declared_type).is_some() => TypeFault::Disagrees(format!(
            "the file was sent as {declared_type}, but its content is not; the file may be damaged"
        )),
        Some(_) | None => TypeFault::NotTaken(format!("the file's type is not accepted; accepted are {TAKEN}")),
    }
}

/// Checks an image's dimensions, from its header.
fn check_image(head: &[u8], media_type: &str) -> Result<(), String> {
    let (width, height) = image_size(head, media_type)
        .filter(|(width, height)| *width > 0 && *height > 0)
        .ok_or_else(|| {
            format!("the file was sent as {media_type}, but its header does not contain the image's size")
        })?;
    let pixels = u64::from(width) * u64::from(height);
    if width > IMAGE_SIDE_MAX || height > IMAGE_SIDE_MAX || pixels > IMAGE_PIXELS_MAX {
        return Err(format!(
            "the image has {width} × {height} pixels; the maximum is {IMAGE_SIDE_MAX} per side and {IMAGE_PIXELS_MAX} \
            in total. Scale it down"
        ));
    }
    Ok(())
}

/// Width and height, in pixels.
fn image_size(head: &[u8], media_type: &str) -> Option<(u32, u32)> {
    let big = |at: usize| Some(u32::from_be_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let little = |at: usize| Some(u32::from(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?)));
    match media_type {
        "image/png" => {
            let is_header = head.get(12..16)? == b"IHDR";
            is_header.then_some((big(16)?, big(20)?))
        }
        "image/gif" => Some((little(6)?, little(8)?)),
        "image/webp" => match head.get(12..16)? {
            b"VP8 " => Some((little(26)? & 0x3fff, little(28)? & 0x3fff)),
            b"VP8L" => {
                let bits = u32::from_le_bytes(head.get(21..25)?.try_into().ok()?);
                Some(((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1))
            }
            b"VP8X" => {
                let three = |at: usize| Some(little(at)? | u32::from(*head.get(at + 2)?) << 16);
                Some((three(24)? + 1, three(27)? + 1))
            }
            _ => None,
        },
        "image/jpeg" => jpeg_size(head),
        _ => None,
    }
}

/// The size in a JPEG's frame header, which follows other segments.
fn jpeg_size(head: &[u8]) -> Option<(u32, u32)> {
    let two = |at: usize| Some(u16::from_be_bytes(head.get(at..at + 2)?.try_into().ok()?));
    let mut at = 2;
    // Each round advances by two bytes or more.
    while *head.get(at)? == 0xff {
        let marker = *head.get(at + 1)?;
        match marker {
            // Fill bytes, and markers that stand alone.
            0xff => at += 1,
            0x01 | 0xd0..=0xd8 => at += 2,
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                return Some((u32::from(two(at + 7)?), u32::from(two(at + 5)?)));
            }
            // The image's data, or its end: there was no frame header.
            0xd9 | 0xda => return None,
            _ => at += 2 + usize::from(two(at + 2)?.max(2)),
        }
    }
    None
}

#[cfg(test)]
mod tests;
