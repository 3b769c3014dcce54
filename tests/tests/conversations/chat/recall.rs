//! Recall: how many facts of a long conversation the model still has after compression, compared with before. The
//! summarizing model is scripted, and as forgetful as a case requires; the input of the next model is measured.

use std::sync::{Arc, Mutex};

use rejoin_tests::app::TestApp;
use rejoin_tests::client::json_of;
use rejoin_tests::model_server::{Reply, last_user_message, sent};
use serde_json::json;
use uuid::Uuid;

/// Number of turns in a conversation, each with one fact among filler words.
const TURNS: usize = 60;
const NOISE: &str = "As you may have heard, things go on as they always do, and nobody is surprised by any of it, least of all us here.";

/// Returns the fact of the `n`th turn, and the words that show its knowledge.
fn fact(n: usize) -> (String, String) {
    let names = [
        "Anna", "Berta", "Carlos", "Dmitri", "Emeka", "Fumiko", "Grazia", "Hakim",
    ];
    let name = names[n % names.len()];
    let (fact, known_by) = match n % 6 {
        0 => (
            format!("the offer for lot {n} is {}.50 euros", 1_000 + 37 * n),
            format!("{}.50", 1_000 + 37 * n),
        ),
        1 => (
            format!("{name} wants the report by 2027-03-{:02}", 1 + n % 28),
            format!("2027-03-{:02}", 1 + n % 28),
        ),
        2 => (format!("the ticket is OPS-{}", 4_000 + n), format!("OPS-{}", 4_000 + n)),
        3 => (
            format!("we settled on \"plan {n} of the north wing\" as its name",),
            format!("plan {n} of the north wing"),
        ),
        4 => (
            format!("write to {}.{n}@example.com about it", name.to_lowercase()),
            format!("{}.{n}@example.com", name.to_lowercase()),
        ),
        _ => (
            format!("der Raum ist {}-{n} im Haus von {name}", 200 + n),
            format!("{}-{n}", 200 + n),
        ),
    };
    (format!("By the way, {fact}."), known_by)
}

/// Summarizes: of each informative sentence, one in `forgets` is omitted, randomly each time.
fn minutes(given: &str, forgets: u64, round: u64) -> String {
    let printed = given
        .lines()
        .flat_map(|line| line.split_inclusive(". "))
        .map(str::trim)
        .filter(|sentence| sentence.contains("By the way"));
    let kept: Vec<&str> = printed
        .filter(|sentence| {
            let hash = sentence
                .bytes()
                .fold(round.wrapping_mul(0x9E37_79B9_7F4A_7C15), |hash, byte| {
                    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
                });
            forgets == 0 || (hash >> 33) % forgets != 0
        })
        .collect();
    format!("Minutes. {}", kept.join("\n"))
}

/// Returns the share of known facts (0 to 1) before compression, after it, and with the model's summaries alone.
async fn recall(forgets: u64) -> (f64, f64, f64) {
    let app = TestApp::start().await;
    let agent = app.agent("helper", &[]).await;
    /// The relevant inputs and outputs of the model.
    #[derive(Default)]
    struct Heard {
        rounds: u64,
        minutes: String,
        question: Vec<(String, String)>,
    }
    let heard = Arc::new(Mutex::new(Heard::default()));
    let hears = heard.clone();
    app.model.answer_by(move |request| {
        let asked = last_user_message(request);
        let mut heard = hears.lock().unwrap();
        if asked.contains("# New messages") {
            heard.rounds += 1;
            heard.minutes = minutes(&asked, forgets, heard.rounds);
            return Some(Reply::text(&heard.minutes));
        }
        heard.question = sent(request);
        Some(Reply::text("Noted."))
    });
    let client = app.client();
    let mut conversation = None;
    let mut raw = String::new();
    for n in 0..TURNS {
        let noise = [NOISE; 5].join(" ");
        let said = format!("{noise} {} {noise}", fact(n).0);
        raw.push_str(&said);
        let mut body = json!({"message": said, "agentDefinitionId": agent, "contextType": "global"});
        if let Some(id) = &conversation {
            body = json!({"message": said, "conversationId": id});
        }
        let events = json_of(&client.chat(body).await);
        conversation.get_or_insert_with(|| events[1]["conversationId"].as_str().unwrap().to_owned());
        app.wait_until_idle().await;
    }
    let conversation = conversation.unwrap();
    let versions: i64 = sqlx::query_scalar("select count(*) from kb.chat_compressions where conversation_id = $1")
        .bind(Uuid::parse_str(&conversation).unwrap())
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert!(versions > 3, "summaries of summaries: {versions}");
    client
        .chat(json!({"message": "What do you know?", "conversationId": conversation}))
        .await;
    let heard = heard.lock().unwrap();
    let given: String = heard.question.iter().map(|(_, said)| said.as_str()).collect();
    let share = |text: &str| {
        let known = (0..TURNS).filter(|n| text.contains(&fact(*n).1)).count();
        f64::from(u32::try_from(known).unwrap()) / f64::from(u32::try_from(TURNS).unwrap())
    };
    // Messages since the last summary are given verbatim.
    let since = heard.question.iter().skip(1).map(|(_, said)| said.as_str());
    let by_model: String = since.chain([heard.minutes.as_str()]).collect();
    (share(&raw), share(&given), share(&by_model))
}

/// Requirements: E59.
#[tokio::test]
async fn facts_survive_a_summary_even_if_its_model_forgets() {
    for forgets in [0, 5, 2] {
        let (before, after, by_model) = recall(forgets).await;
        assert!(
            after >= 0.95 * before,
            "one in {forgets} forgotten: {before:.3} before, {after:.3} after, {by_model:.3} of the model's own"
        );
        assert!(
            forgets == 0 || by_model < after,
            "one in {forgets} forgotten, and nothing was: {by_model:.3}"
        );
    }
}
