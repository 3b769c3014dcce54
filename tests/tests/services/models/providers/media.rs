//! Images, PDF and audio reach each provider that accepts them, byte for byte.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rejoin_provider_stand_in::{Providers, Turn};
use rejoin_tests::app::TestApp;
use rejoin_tests::client::{json_of, of_kind, text};
use rejoin_tests::files;
use serde_json::json;
use uuid::Uuid;

use super::{PROTOCOLS, app, choice, recordings};

/// Size of a sound, in bytes.
const AUDIO_BYTES: usize = 4_000;

/// An agent without tools with this model.
async fn plain_agent(model: &str) -> (Providers, TestApp, Uuid) {
    let providers = Providers::start().await.expect("a stand-in");
    let app = app(&providers, 0).await;
    let agent = app
        .agent_with("worker", &[], |content| content.model = Some(choice(model, None)))
        .await;
    (providers, app, agent)
}

#[tokio::test]
async fn each_provider_is_sent_an_image_and_a_pdf() {
    for (model, _) in PROTOCOLS {
        is_sent_an_image(model, true).await;
    }
}

/// With a PDF, where the model takes one.
pub(super) async fn is_sent_an_image(model: &str, with_pdf: bool) {
    let (providers, app, agent) = plain_agent(model).await;
    providers.script("what is this", [Turn::text("A pixel, and a page.")]);
    let client = app.client();
    let (image, page) = (files::png(), files::pdf());
    let mut attachments = vec![json!({"fileId": files::stored(&client, "pixel.png", image.clone()).await})];
    let mut sent_files = vec![image];
    if with_pdf {
        attachments.push(json!({"fileId": files::stored(&client, "page.pdf", page.clone()).await}));
        sent_files.push(page);
    }
    let body = json!({"message": "what is this", "agentDefinitionId": agent, "attachments": attachments});
    let frames = client.chat(body).await;
    assert_eq!(providers.refusals(), [], "{model}");
    assert_eq!(text(&frames), "A pixel, and a page.", "{model}");
    let name = if with_pdf { "image-and-pdf" } else { "image" };
    recordings::check(name, &providers.recorded());
    let sent = providers.recorded()[0].body.to_string();
    for bytes in sent_files {
        assert!(sent.contains(&STANDARD.encode(bytes)), "{model}: {sent}");
    }
}

/// Of the catalogue's models only Gemini's accept audio; the others' agents say so, and name one that does.
#[tokio::test]
async fn audio_is_sent_only_to_a_provider_that_takes_it() {
    for (model, _) in PROTOCOLS {
        is_sent_a_sound(model, model.starts_with("gemini:")).await;
    }
}

/// Or is not, and the error names a model that takes it.
pub(super) async fn is_sent_a_sound(model: &str, takes: bool) {
    let (providers, app, agent) = plain_agent(model).await;
    providers.script("listen", [Turn::text("A hiss.")]);
    let client = app.client();
    let sound = files::wav(AUDIO_BYTES);
    let attachments = [json!({"fileId": files::stored(&client, "hiss.wav", sound.clone()).await})];
    let body = json!({"message": "listen", "agentDefinitionId": agent, "attachments": attachments});
    if takes {
        let frames = client.chat(body).await;
        assert_eq!(providers.refusals(), []);
        assert_eq!(text(&frames), "A hiss.");
        recordings::check("audio", &providers.recorded());
        let sent = providers.recorded()[0].body.to_string();
        assert!(sent.contains(&STANDARD.encode(sound)), "{sent}");
    } else {
        let events = json_of(&client.chat(body).await);
        let error = of_kind(&events, "error")[0];
        assert!(
            error["error"].as_str().unwrap_or_default().contains("gemini:"),
            "{model}: {error}"
        );
        assert_eq!(providers.recorded().len(), 0, "{model} was asked");
    }
}
