//! The schema of what a stream sends, in the OpenAPI document: the events of a log, the snapshot, and the frames about the
//! connection.

use std::borrow::Cow;

use rejoin_event_log::snapshot::Snapshot;
use rejoin_types::events::Event;
use rejoin_types::events::schema::{self, Schemas};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::frame::ConnectionFrame;

/// The data of one frame of a stream: an event of the log, its snapshot, or a frame about the connection.
pub struct StreamEvent;

/// The end of the names of frames' schemas.
const SUFFIX: &str = "Frame";
const DESCRIPTION: &str = "The data of one frame of a stream of server-sent events. The response consists of frames, each with one such \
    object as a line of JSON in its `data`. The `id` of a frame is the number of the event in its log, which is also the \
    cursor for a later reader; frames about the connection (`open`, `caught_up`, `goaway`, `gap`, `rewound`) have no number. Ignore \
    types that you do not know: later versions add some.";

impl PartialSchema for StreamEvent {
    fn schema() -> RefOr<Schema> {
        let frames = schema::variants::<ConnectionFrame>().into_iter();
        let frames = frames.map(|(kind, _)| (schema::name_of(&kind, SUFFIX), kind));
        let snapshot = (Snapshot::name().into_owned(), Snapshot::KIND.to_owned());
        schema::union(
            DESCRIPTION,
            schema::members().into_iter().chain([snapshot]).chain(frames),
        )
    }
}

impl ToSchema for StreamEvent {
    fn name() -> Cow<'static, str> {
        "StreamEvent".into()
    }

    fn schemas(schemas: &mut Schemas) {
        Event::schemas(schemas);
        schemas.push((Snapshot::name().into_owned(), Snapshot::schema()));
        Snapshot::schemas(schemas);
        for (kind, object) in schema::variants::<ConnectionFrame>() {
            schemas.push((schema::name_of(&kind, SUFFIX), object.into()));
        }
    }
}
