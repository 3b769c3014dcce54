//! The OpenAPI document: what utoipa gathers from the routes, with title and security scheme.

use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, OpenApi, OpenApiBuilder};
use utoipa::{PartialSchema, ToSchema};

use crate::problem::ProblemBody;

/// The name of the one security scheme.
const API_KEY: &str = "apiKey";

/// What the routes' descriptions are merged into.
pub fn base() -> OpenApi {
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "An API key (`rejoin keys create`), or a JWT of the identity provider that the server trusts. `X-Project-ID` chooses among several \
             projects.",
        ))
        .build();
    let components = ComponentsBuilder::new()
        .security_scheme(API_KEY, SecurityScheme::Http(bearer))
        .schema(ProblemBody::name(), ProblemBody::schema())
        .build();
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("Rejoin")
                .version(env!("CARGO_PKG_VERSION"))
                .description(Some("Agent runs that you can leave and rejoin."))
                .build(),
        )
        .components(Some(components))
        .security(Some([SecurityRequirement::new(API_KEY, Vec::<String>::new())]))
        .build()
}

/// The whole document, as `rejoin openapi` prints it.
pub fn document() -> OpenApi {
    named(crate::routes::all().into_openapi())
}

/// Gives each operation a name of its own: its tag and its handler, `graph_objects_list`. Handlers of different nouns have the
/// same names, and programs that write clients need different ones.
pub fn named(mut document: OpenApi) -> OpenApi {
    for item in document.paths.paths.values_mut() {
        let operations = [
            &mut item.get,
            &mut item.put,
            &mut item.post,
            &mut item.delete,
            &mut item.patch,
        ];
        for operation in operations.into_iter().flatten() {
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
    document
}
