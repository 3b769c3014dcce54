//! Files of a request: uploaded before, or sent with it as data URLs, which are stored like uploads.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rejoin_chat::ChatState;
use rejoin_chat::files::uploads;
use rejoin_http::caller::Caller;
use rejoin_http::problem::Problem;
use uuid::Uuid;

use crate::openai::input::InputFile;

/// Returns the ids of a message's files, without duplicates; those that came with the request are stored first.
pub(super) async fn stored(state: &ChatState, caller: &Caller, sent: &[InputFile]) -> Result<Vec<Uuid>, Problem> {
    let most = state.settings.files.max_message_files;
    if sent.len() > most {
        let detail = format!("a message can have at most {most} files");
        return Err(Problem::bad_request("too_many_attachments", detail));
    }
    let mut ids = Vec::with_capacity(sent.len());
    for file in sent {
        let id = match file {
            InputFile::Uploaded(id) => *id,
            InputFile::Inline {
                name,
                media_type,
                base64,
            } => {
                let content = STANDARD.decode(base64).map_err(|_| {
                    Problem::bad_request(
                        "invalid_file",
                        "the data of a file is not valid base64; send data:…;base64,…",
                    )
                })?;
                uploads::store(state, caller, name, Some(media_type), content.into())
                    .await?
                    .id
            }
        };
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}
