//! The OpenAPI document: collected by utoipa from the routes, with title and security schemes. `authorization` writes the security
//! requirement of each operation, as its handler declares it.
//!
//! - `tags` descriptions of the tags

mod tags;

use std::collections::BTreeSet;

use axum::http::Method;
use rejoin_types::access::Scope;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    ComponentsBuilder, ContactBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, ServerBuilder,
};
use utoipa::{PartialSchema, ToSchema};

use crate::cookie;
use crate::problem::ProblemBody;

/// The names of the security schemes; either suffices.
const API_KEY: &str = "apiKey";
const SESSION: &str = "session";

/// The base document, into which the routes' descriptions are merged.
pub fn base() -> OpenApi {
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "An API key (`rejoin keys create`), or a JWT of the identity provider that the server trusts. \
            `X-Project-ID` selects one of several projects.",
        ))
        .build();
    let cookie = ApiKeyValue::with_description(
        cookie::NAME,
        "The session of a browser that has signed in (`POST /api/session`). Accepted from pages of this server only.",
    );
    let components = ComponentsBuilder::new()
        .security_scheme(SESSION, SecurityScheme::ApiKey(ApiKey::Cookie(cookie)))
        .security_scheme(API_KEY, SecurityScheme::Http(bearer))
        .schema(ProblemBody::name(), ProblemBody::schema())
        .build();
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("Rejoin")
                .version(env!("CARGO_PKG_VERSION"))
                .description(Some("Agent runs that you can leave and rejoin."))
                .license(Some(
                    LicenseBuilder::new()
                        .name("Apache-2.0")
                        .identifier(Some("Apache-2.0"))
                        .build(),
                ))
                .contact(Some(ContactBuilder::new().name(Some("The operator of this server")).build()))
                .build(),
        )
        // Relative: the server from which the document was loaded.
        .servers(Some([ServerBuilder::new().url("/").build()]))
        .components(Some(components))
        .security(Some(
            [API_KEY, SESSION].map(|scheme| SecurityRequirement::new(scheme, Vec::<String>::new())),
        ))
        .build()
}

/// The security requirement of an operation: a credential with the scope, or none, or either.
pub fn security(scope: Option<Scope>, needs_no_credential: bool) -> Vec<SecurityRequirement> {
    let credentials = scope
        .into_iter()
        .flat_map(|scope| [API_KEY, SESSION].map(|scheme| SecurityRequirement::new(scheme, [scope.as_str()])));
    // As OpenAPI has it: a requirement of nothing.
    let nothing = needs_no_credential.then(SecurityRequirement::default);
    credentials.chain(nothing).collect()
}

/// The operations of a path, with their methods.
pub fn operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    [
        (Method::GET, &mut item.get),
        (Method::PUT, &mut item.put),
        (Method::POST, &mut item.post),
        (Method::DELETE, &mut item.delete),
        (Method::OPTIONS, &mut item.options),
        (Method::HEAD, &mut item.head),
        (Method::PATCH, &mut item.patch),
        (Method::TRACE, &mut item.trace),
    ]
    .into_iter()
    .filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

/// Gives each operation a unique name: its tag and its handler, such as `graph_objects_list`. Handlers of different
/// nouns share names, but client generators need unique ones. All tags are listed at the top.
pub fn named(mut document: OpenApi) -> OpenApi {
    let mut tags = BTreeSet::new();
    for item in document.paths.paths.values_mut() {
        for (_, operation) in operations(item) {
            tags.extend(operation.tags.iter().flatten().cloned());
            let tag = operation
                .tags
                .as_ref()
                .and_then(|tags| tags.first())
                .map(|tag| tag.replace(' ', "_"));
            if let (Some(tag), Some(handler)) = (tag, &mut operation.operation_id) {
                *handler = format!("{tag}_{handler}");
            }
        }
    }
    document.tags = Some(
        tags.into_iter()
            .map(|tag| {
                let description = tags::description(&tag);
                TagBuilder::new().name(tag).description(description).build()
            })
            .collect(),
    );
    document
}
