//! Replies after resets show every word once.

use super::*;

fn print(text: &str) -> Option<Step> {
    Some(Step::Print(text.to_owned()))
}

#[test]
fn a_reply_repeated_after_a_reset_shows_every_word_once() {
    let mut reply = Reply::default();
    assert_eq!(reply.token(1, "Hello "), print("Hello "));
    assert_eq!(reply.token(2, "wor"), print("wor"));
    reply.reset(0);
    assert_eq!(reply.text(), "");
    assert_eq!(reply.token(4, "Hel"), None);
    assert_eq!(reply.token(5, "lo world"), print("ld"));
    assert_eq!(reply.token(6, "!"), print("!"));
    assert_eq!(reply.settle(), None);
    assert_eq!(reply.text(), "Hello world!");
}

#[test]
fn a_reset_keeps_what_was_finished_before() {
    let mut reply = Reply::default();
    reply.token(1, "Kept. ");
    reply.token(2, "Lost");
    reply.reset(1);
    assert_eq!(reply.text(), "Kept. ");
    assert_eq!(reply.token(4, "Lost and found"), print(" and found"));
}

#[test]
fn a_reply_that_goes_another_way_replaces_what_differs() {
    let mut reply = Reply::default();
    reply.token(1, "It is bläu");
    reply.reset(0);
    assert_eq!(reply.token(3, "It is "), None);
    assert_eq!(
        reply.token(4, "blue"),
        Some(Step::Replace {
            shown: "äu".to_owned(),
            text: "ue".to_owned()
        })
    );
    assert_eq!(reply.token(5, "."), print("."));
}

#[test]
fn a_reply_shorter_than_the_lost_one_is_cut_at_its_end() {
    let mut reply = Reply::default();
    reply.token(1, "Yes, and more");
    reply.reset(0);
    assert_eq!(reply.token(3, "Yes"), None);
    assert_eq!(
        reply.settle(),
        Some(Step::Replace {
            shown: ", and more".to_owned(),
            text: String::new()
        })
    );
    assert_eq!(reply.settle(), None);
}

#[test]
fn two_losses_in_a_row_are_like_one() {
    let mut reply = Reply::default();
    reply.token(1, "One two");
    reply.reset(0);
    assert_eq!(reply.token(3, "One"), None);
    reply.reset(0);
    assert_eq!(reply.token(5, "One two three"), print(" three"));
}

#[test]
fn a_tool_s_result_is_counted() {
    assert_eq!(size(&serde_json::json!({"results": [1, 2]})), "2 results");
    assert_eq!(size(&serde_json::json!({"edges": [1], "total": 1})), "1 edges");
    assert_eq!(size(&serde_json::json!([1])), "1 result");
    assert_eq!(size(&Value::Null), "done");
}
