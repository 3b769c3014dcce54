//! Detection of types, sizes of images, and text that is cut anywhere.

use super::*;

fn png(width: u32, height: u32) -> Vec<u8> {
    let mut file = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    file.extend(width.to_be_bytes());
    file.extend(height.to_be_bytes());
    file
}

#[test]
fn files_are_known_by_their_beginning() {
    let sniffed = |head: &[u8]| signature(head);
    for (head, media_type) in [
        (png(1, 1).as_slice(), "image/png"),
        (b"GIF89a\x01\0\x01\0", "image/gif"),
        (b"%PDF-1.7\n", "application/pdf"),
        (b"RIFF\0\0\0\0WAVEfmt ", "audio/wav"),
        (b"\xff\xfb\x90\x00", "audio/mpeg"),
        (b"\xff\xf1\x50\x80", "audio/aac"),
        (b"ID3\x04", "audio/mpeg"),
        (b"\0\0\0\x20ftypM4A ", "audio/mp4"),
    ] {
        assert_eq!(sniffed(head), Signature::Known(media_type));
    }
    assert!(matches!(sniffed(b"PK\x03\x04"), Signature::Foreign(_)));
    assert!(matches!(sniffed(b"\0\0\0\x20ftypisom"), Signature::Foreign(_)));
    assert_eq!(sniffed(b"<svg xmlns="), Signature::None);
    assert_eq!(sniffed(b""), Signature::None);
}

#[test]
fn the_sender_must_not_say_something_else() {
    let png = png(10, 10);
    for declared in [
        None,
        Some("image/png"),
        Some("application/octet-stream"),
        Some("IMAGE/PNG; x=y"),
    ] {
        assert_eq!(of_beginning(&png, declared), Ok(Some("image/png")), "{declared:?}");
    }
    for declared in ["image/jpeg", "text/plain", "application/pdf"] {
        let fault = of_beginning(&png, Some(declared)).unwrap_err();
        assert!(matches!(fault, TypeFault::Disagrees(_)), "{declared}: {fault}");
    }
    assert_eq!(of_beginning(b"ID3\x04", Some("audio/mp3")), Ok(Some("audio/mpeg")));
    for (declared, name, media_type) in [
        (Some("image/svg+xml"), "a.svg", Some("image/svg+xml")),
        (Some("text/html"), "a.html", Some("text/html")),
        (None, "a.svg", Some("image/svg+xml")),
        (None, "notes", Some("text/plain")),
        (Some("video/mp2t"), "index.ts", Some("text/plain")),
        (Some("application/vnd.ms-excel"), "table.csv", Some("text/csv")),
        (Some("image/png"), "a.png", None),
        (Some("application/pdf"), "a.pdf", None),
    ] {
        assert_eq!(
            of_text(declared, name).ok().as_deref(),
            media_type,
            "{declared:?} {name}"
        );
    }
    assert_eq!(
        class_of("image/svg+xml"),
        Some(Class::Text),
        "an SVG is never an image for models"
    );
    assert_eq!(class_of("text/html"), Some(Class::Text));
}

#[test]
fn a_declared_type_that_no_model_reads_is_not_taken() {
    for (declared, name, taken) in [
        ("text/plain; charset=utf-8", "", true),
        ("image/jpg", "a", true),
        ("application/octet-stream", "", true),
        ("", "", true),
        ("application/vnd.ms-excel", "table.csv", true),
        ("video/mp2t", "index.ts", true),
        ("application/vnd.ms-excel", "table.xls", false),
        ("application/x-unknown", "", false),
        ("video/mp4", "film.mp4", false),
    ] {
        assert_eq!(is_taken(declared, name), taken, "{declared} {name}");
    }
}

#[test]
fn images_tell_their_size_and_bombs_are_refused() {
    let mut jpeg = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xff\xc2\x00\x11\x08".to_vec();
    jpeg.extend([0x01, 0x02, 0x03, 0x04]);
    assert_eq!(image_size(&jpeg, "image/jpeg"), Some((0x0304, 0x0102)));
    assert_eq!(image_size(b"GIF89a\x02\0\x03\0", "image/gif"), Some((2, 3)));
    let webp = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x0f\x27\0\x00\x01\0";
    assert_eq!(image_size(webp, "image/webp"), Some((10_000, 257)));
    for (width, height) in [(0, 1), (60_000, 60_000), (IMAGE_SIDE_MAX + 1, 1), (16_000, 16_000)] {
        assert!(matches!(
            of_beginning(&png(width, height), None),
            Err(TypeFault::Image(_))
        ));
    }
    // Truncated, or without an end.
    for head in [
        &b"\xff\xd8\xff"[..],
        b"\xff\xd8\xff\xe0\0\0\xff\xe0\0\0",
        b"\xff\xd8\xff\xda\0\0",
    ] {
        assert_eq!(image_size(head, "image/jpeg"), None);
    }
}

#[test]
fn text_is_text_wherever_it_is_cut() {
    let text = "naïve — 🦀\n".as_bytes();
    for at in 0..=text.len() {
        let mut check = TextCheck::default();
        assert!(
            check.goes_on(&text[..at]) && check.goes_on(&text[at..]) && check.is_whole(),
            "{at}"
        );
    }
    let mut cut = TextCheck::default();
    assert!(cut.goes_on(&text[..3]) && !cut.is_whole());
    for no_text in [&b"a\0b"[..], b"\xff\xfe", b"a\x08", b"\xc3("] {
        assert!(!TextCheck::default().goes_on(no_text), "{no_text:?}");
    }
}
