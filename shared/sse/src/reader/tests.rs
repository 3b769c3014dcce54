//! Where a reader ends its response.

use super::*;

fn frame(seq: i64, run: Uuid, done_of: Option<Uuid>) -> Frame {
    Frame {
        seq,
        run_id: Some(run),
        done_of,
        bytes: Bytes::new(),
    }
}

#[test]
fn a_runs_readers_see_its_sub_agents_and_stop_at_its_own_done() {
    let (run, child, other) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());
    let filter = Filter::Run {
        id: run,
        root: run,
        open_through: 0,
    };
    assert!(!filter.shows(&frame(1, other, None)));
    assert!(filter.shows(&frame(2, run, Some(child))));
    assert!(!filter.ends_with(&frame(2, run, Some(child))));
    assert!(filter.ends_with(&frame(3, run, Some(run))));
}

#[test]
fn a_resumed_runs_earlier_done_does_not_end_it() {
    let run = Uuid::now_v7();
    let filter = Filter::Run {
        id: run,
        root: run,
        open_through: 10,
    };
    assert!(!filter.ends_with(&frame(10, run, Some(run))));
    assert!(filter.ends_with(&frame(20, run, Some(run))));
}

/// Ends the response at each event.
struct Impatient;

impl crate::dialects::Renderer for Impatient {
    fn render(&mut self, seq: i64, _: &serde_json::Value, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("{seq};").as_bytes());
    }

    fn is_over(&self) -> bool {
        true
    }
}

#[test]
fn a_renderer_ends_the_response_at_an_event_that_it_shows() {
    let mut dialect = Dialect::Rendered {
        renderer: Box::new(Impatient),
        silent_through: 2,
    };
    let (mut chunk, mut cursor, mut ended) = (Chunk::default(), 0, false);
    for seq in 1..=3 {
        let frame = Frame {
            bytes: Bytes::from_static(b"id: 1\ndata: {}\n\n"),
            ..frame(seq, Uuid::nil(), None)
        };
        chunk.add(&frame, (Filter::Log, &mut dialect), &mut cursor, &mut ended);
        assert_eq!(ended, seq == 3);
    }
    assert_eq!(chunk.into_bytes(), "3;");
}
