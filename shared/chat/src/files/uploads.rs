//! Receives a file, as a request body or a form field, piece by piece into the database or the object store.
//!
//! Invariant: no transaction is open while waiting for the sender or the object store, and nothing remains of a refused
//! or interrupted upload.

use std::io;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderName, StatusCode};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::BoxStream;
use rejoin_db::rls;
use rejoin_files::objects::Upload;
use rejoin_files::types::{self, TextCheck};
use rejoin_files::{BeginError, CHUNK_BYTES, File, NewFile, names};
use rejoin_http::caller::{Caller, Write};
use rejoin_http::extract::Params;
use rejoin_http::problem::{Problem, ProblemBody, Refused};
use rejoin_http::upload::{UploadError, upload};
use rejoin_types::ids;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use sqlx::PgConnection;
use tracing::warn;
use utoipa::IntoParams;
use uuid::Uuid;

use super::{FileBody, PATH, not_found};
use crate::state::ChatState;

/// Maximum size of a form's other fields, in bytes.
const FORM_MAX_BYTES: u64 = 64 * 1024;
/// How much of a too large file is read and discarded, so that the client receives the error, as a multiple of the
/// limit.
const HEARD_TIMES: u64 = 4;
/// Maximum number of form fields searched for the file.
const FORM_MAX_FIELDS: usize = 20;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct UploadParams {
    /// The file's name; for a form, the name of the part is used
    pub name: Option<String>,
}

fn too_large(limit: u64) -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "file_too_large",
        format!("a file can have at most {limit} bytes"),
    )
}

fn unsupported(code: &'static str, detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, code, detail)
}

/// The content of an uploaded file: the body, or a form field.
enum Content {
    Body(BoxStream<'static, io::Result<Bytes>>),
    Field(Box<multer::Field<'static>>),
}

/// An uploaded file with its declared properties.
struct Sent {
    name: String,
    /// As declared by the sender.
    media_type: Option<String>,
    content: Content,
    /// Its maximum size, if known, in bytes.
    at_most: u64,
}

impl Sent {
    async fn of(state: &ChatState, params: UploadParams, request: Request) -> Result<Self, Problem> {
        let limit = state.settings.files.max_file_bytes;
        let headers = request.headers();
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        if text(CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
            return Err(unsupported(
                "unsupported_media_type",
                "a file must be sent without Content-Encoding",
            ));
        }
        let length = text(CONTENT_LENGTH).and_then(|text| text.parse::<u64>().ok());
        let media_type = text(CONTENT_TYPE).map(str::to_owned);
        let boundary = media_type.as_deref().and_then(|kind| multer::parse_boundary(kind).ok());
        let most = if boundary.is_some() {
            limit + FORM_MAX_BYTES
        } else {
            limit
        };
        if length.is_some_and(|length| length > most * HEARD_TIMES) {
            return Err(too_large(limit));
        }
        let body = request.into_body().into_data_stream();
        let body = upload(body, most * HEARD_TIMES, state.args.body_min_bytes_per_s).boxed();
        let at_most = length.unwrap_or(limit).min(limit);
        let Some(boundary) = boundary else {
            return Ok(Self {
                name: params.name.unwrap_or_default(),
                media_type,
                content: Content::Body(body),
                at_most,
            });
        };
        let mut form = multer::Multipart::new(body, boundary);
        for _ in 0..FORM_MAX_FIELDS {
            let Some(field) = form.next_field().await.map_err(|error| form_problem(&error, limit))? else {
                break;
            };
            if field.file_name().is_none() && field.name() != Some("file") {
                continue;
            }
            let name = field.file_name().map(str::to_owned);
            return Ok(Self {
                name: name.or(params.name).unwrap_or_default(),
                media_type: field.content_type().map(ToString::to_string),
                content: Content::Field(Box::new(field)),
                at_most,
            });
        }
        Err(Problem::bad_request(
            "file_missing",
            "the form has no file; send it in a field named `file`",
        ))
    }

    async fn next(&mut self, limit: u64) -> Result<Option<Bytes>, Problem> {
        match &mut self.content {
            Content::Body(body) => {
                let chunk = body.next().await.transpose();
                chunk.map_err(|error| upload_error(UploadError::of(&error), limit))
            }
            Content::Field(field) => field.chunk().await.map_err(|error| form_problem(&error, limit)),
        }
    }
}

fn upload_error(upload_error: UploadError, limit: u64) -> Problem {
    match upload_error {
        UploadError::TooLarge { .. } => too_large(limit),
        UploadError::Stalled | UploadError::Broken => upload_error.into(),
    }
}

fn form_problem(error: &multer::Error, limit: u64) -> Problem {
    if let multer::Error::StreamReadFailed(inner) = error
        && let Some(inner) = inner.downcast_ref::<io::Error>()
    {
        return upload_error(UploadError::of(inner), limit);
    }
    Problem::bad_request("invalid_form", "the form is not multipart/form-data, or is incomplete")
}

/// An upload in progress.
struct Arriving<'a> {
    state: &'a ChatState,
    caller: &'a Caller,
    id: Uuid,
    name: String,
    declared: Option<String>,
    at_most: u64,
    size: u64,
    hasher: Sha256,
    position: i32,
    /// Detected from its beginning. None: text, or nothing has arrived.
    media_type: Option<&'static str>,
    text: TextCheck,
    /// The object store's upload. None: the content goes into the database.
    upload: Option<Upload>,
}

impl Arriving<'_> {
    async fn all(&mut self, sent: &mut Sent) -> Result<File, Problem> {
        let limit = self.state.settings.files.max_file_bytes;
        let mut waiting = BytesMut::new();
        while let Some(chunk) = sent.next(limit).await? {
            self.size += chunk.len() as u64;
            if self.size > limit {
                waiting.clear();
                continue;
            }
            self.hasher.update(&chunk);
            waiting.extend_from_slice(&chunk);
            while waiting.len() >= CHUNK_BYTES {
                let piece = waiting.split_to(CHUNK_BYTES).freeze();
                self.take(piece, false).await?;
            }
        }
        if self.size > limit {
            return Err(too_large(limit));
        }
        self.take(waiting.freeze(), true).await?.ok_or_else(not_found)
    }

    /// Checks and stores a piece. `Some`: it was the last one, and the file is complete.
    async fn take(&mut self, piece: Bytes, is_last: bool) -> Result<Option<File>, Problem> {
        let media_type = self.check(&piece, is_last)?;
        let file = if self.upload.is_some() {
            self.put_object(&media_type, piece, is_last).await?
        } else {
            self.put_rows(&media_type, &piece, is_last).await?
        };
        self.position += 1;
        Ok(file)
    }

    /// Returns the file's type, as far as it is known so far.
    fn check(&mut self, piece: &[u8], is_last: bool) -> Result<String, Problem> {
        let declared = self.declared.as_deref();
        if self.position == 0 {
            if piece.is_empty() {
                return Err(Problem::bad_request("file_empty", "the file is empty"));
            }
            self.media_type = types::of_beginning(piece, declared)?;
        }
        if self.media_type.is_none() && !(self.text.goes_on(piece) && (!is_last || self.text.is_whole())) {
            return Err(types::not_text(declared).into());
        }
        Ok(match self.media_type {
            Some(known) => known.to_owned(),
            None => types::of_text(declared, &self.name)?,
        })
    }

    /// Stores in the database: a transaction for each piece, so that none is open while the next one is awaited.
    async fn put_rows(&self, media_type: &str, piece: &[u8], is_last: bool) -> Result<Option<File>, Problem> {
        let mut db = self.caller.begin(self.state).await?;
        if self.position == 0 {
            self.begin(&mut db, media_type).await?;
        }
        if !piece.is_empty() {
            rejoin_files::put_chunk(&mut db, self.id, self.position, piece).await?;
        }
        let file = if is_last {
            self.finish(&mut db, media_type).await?
        } else {
            None
        };
        db.commit().await?;
        Ok(file)
    }

    /// Stores in the object store. The row exists before the first byte, and is completed after the last one.
    async fn put_object(&mut self, media_type: &str, piece: Bytes, is_last: bool) -> Result<Option<File>, Problem> {
        if self.position == 0 {
            let mut db = self.caller.begin(self.state).await?;
            self.begin(&mut db, media_type).await?;
            db.commit().await?;
        }
        let Some(upload) = &mut self.upload else {
            return Ok(None);
        };
        if !piece.is_empty()
            && let Some(upload_id) = upload.write(piece).await?
        {
            let mut db = self.caller.begin(self.state).await?;
            rejoin_files::note_upload(&mut *db, self.id, &upload_id).await?;
            db.commit().await?;
        }
        if !is_last {
            return Ok(None);
        }
        upload.finish().await?;
        let mut db = self.caller.begin(self.state).await?;
        let file = self.finish(&mut db, media_type).await?;
        db.commit().await?;
        Ok(file)
    }

    async fn begin(&self, db: &mut PgConnection, media_type: &str) -> Result<(), BeginError> {
        let new = NewFile {
            id: self.id,
            workspace_id: self.caller.workspace_id,
            owner_user_id: Some(self.caller.user_id),
            name: &self.name,
            media_type,
            reserved_bytes: self.at_most.max(self.size),
            made_by: None,
            in_object_store: self.upload.is_some(),
        };
        rejoin_files::begin(db, &new, self.state.settings.files.max_project_files_bytes).await
    }

    async fn finish(&self, db: &mut PgConnection, media_type: &str) -> Result<Option<File>, sqlx::Error> {
        let size = i64::try_from(self.size).unwrap_or(i64::MAX);
        let sha256 = self.hasher.clone().finalize();
        rejoin_files::finish(db, self.id, media_type, size, &sha256).await
    }

    /// Removes the arrived part of a refused or interrupted upload. Maintenance removes any remains.
    async fn discard(&mut self) {
        if self.position == 0 && self.upload.is_none() {
            return;
        }
        let discarded = async {
            let mut db = rls::begin(&self.state.db.pool_sqlx, self.caller.rls_scope()).await?;
            let is_gone = rejoin_files::discard(&mut db, self.id).await?;
            db.commit().await?;
            Ok::<_, sqlx::Error>(is_gone)
        };
        let is_gone = discarded.await.unwrap_or_else(|error| {
            warn!(%error, file = %self.id, "removing an incomplete upload failed; maintenance will remove it");
            false
        });
        // Only then: the content of a complete file is still needed.
        if is_gone
            && let Some(upload) = &mut self.upload
            && let Err(error) = upload.discard().await
        {
            warn!(%error, file = %self.id, "removing an incomplete upload from the object store failed; maintenance will remove it");
        }
    }
}

/// Stores a file that came within a request.
pub async fn store(
    state: &ChatState,
    caller: &Caller,
    name: &str,
    declared: Option<&str>,
    content: Bytes,
) -> Result<File, Problem> {
    let _place = state.uploads.take_for(caller.user_id, caller.workspace_id)?;
    let size = content.len() as u64;
    let limit = state.settings.files.max_file_bytes;
    if size > limit {
        return Err(too_large(limit));
    }
    let sent = Sent {
        name: name.to_owned(),
        media_type: declared.map(str::to_owned),
        content: Content::Body(futures::stream::once(async move { Ok(content) }).boxed()),
        at_most: size,
    };
    receive(state, caller, sent).await
}

async fn receive(state: &ChatState, caller: &Caller, mut sent: Sent) -> Result<File, Problem> {
    let id = ids::new();
    let mut arriving = Arriving {
        state,
        caller,
        id,
        name: names::clean(&sent.name),
        declared: sent.media_type.clone(),
        at_most: sent.at_most,
        size: 0,
        hasher: Sha256::new(),
        position: 0,
        media_type: None,
        text: TextCheck::default(),
        upload: state.files.upload(caller.workspace_id, id),
    };
    match arriving.all(&mut sent).await {
        Ok(file) => {
            metrics::counter!("rejoin_files_uploaded_total").increment(1);
            Ok(file)
        }
        Err(problem) => {
            arriving.discard().await;
            Err(problem)
        }
    }
}

/// Upload a file: as the body, with its name in `name` and its type in `Content-Type`, or as a field of a form
#[utoipa::path(post, path = PATH, tag = "files", params(UploadParams),
    request_body(content = String, content_type = "application/octet-stream",
        description = "The file, or `multipart/form-data` with the file in a field named `file`. Accepted are images \
            (PNG, JPEG, GIF, WebP), PDF, audio and UTF-8 text, at most 25 MiB. A file that no message refers to is \
            deleted after a day"),
    responses((status = 201, description = "Stored", body = FileBody),
        (status = 408, description = "The upload was too slow", body = ProblemBody, content_type = "application/problem+json"),
        (status = 413, description = "The file is too large", body = ProblemBody, content_type = "application/problem+json"),
        (status = 415, description = "The file's type is not accepted, or differs from the declared type", body = ProblemBody, content_type = "application/problem+json"),
        (status = 507, description = "The project's storage quota for files is used up", body = ProblemBody, content_type = "application/problem+json"),
        Refused))]
pub(super) async fn create(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Params(params): Params<UploadParams>,
    request: Request,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<FileBody>), Problem> {
    let _place = state.uploads.take_for(caller.user_id, caller.workspace_id)?;
    let sent = Sent::of(&state, params, request).await?;
    let file = receive(&state, &caller, sent).await?;
    let location = [(LOCATION, format!("{PATH}/{}", file.id))];
    Ok((StatusCode::CREATED, location, Json(file.into())))
}
