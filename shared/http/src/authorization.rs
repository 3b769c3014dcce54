//! Who may call each operation, as its handler declares it: by the scope in the type of its first argument (after the state). Called by
//! the API: its `routes` (the table, the OpenAPI document) and `admission` (which refuses before a body is read).
//!
//! To declare: `Caller<Read>`, `Caller<Write>` or `Caller<Admin>`, [`Public`] for an operation without a caller, or an extractor of the
//! operation's own that implements [`Admits`].
//!
//! Invariant: an operation that declares nothing does not compile, because [`Routes`] takes handlers only with their declaration. The
//! extractor checks the scope itself, so that the table can refuse earlier, but never let anybody in.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts, Request, State};
use axum::handler::Handler;
use axum::http::Method;
use axum::http::request::Parts;
use axum::response::IntoResponse;
use axum::routing::{self, MethodFilter, MethodRouter, Route};
use rejoin_types::access::Scope;
use tower::{Layer, Service};
use utoipa::openapi::path::{Parameter, Paths};
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{HttpMethod, OpenApi, RefOr};
use utoipa_axum::router::UtoipaMethodRouter;

use crate::caller::{Caller, Scoped};
use crate::openapi;
use crate::state::HttpState;

/// Who may call an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anyone, without a credential.
    Public,
    /// A caller whose credential has the scope.
    Scope(Scope),
    /// As `Scope`, or the holder of a ticket for the stream, which is in the query.
    ScopeOrTicket(Scope),
    /// As `Scope`, or the sender of a valid sign-in code or invitation in the body.
    ScopeOrCode(Scope),
    /// The identity provider, whose signature is in the body.
    SignedBody,
}

impl Access {
    /// The scope that a caller needs who is identified by a credential.
    pub fn scope(self) -> Option<Scope> {
        match self {
            Self::Public | Self::SignedBody => None,
            Self::Scope(scope) | Self::ScopeOrTicket(scope) | Self::ScopeOrCode(scope) => Some(scope),
        }
    }

    /// Whether a request without a credential can be allowed.
    pub fn needs_no_credential(self) -> bool {
        match self {
            Self::Public | Self::ScopeOrTicket(_) | Self::ScopeOrCode(_) | Self::SignedBody => true,
            Self::Scope(_) => false,
        }
    }

    /// Whether the body of a request without a credential is read.
    pub fn reads_body_of_strangers(self) -> bool {
        match self {
            Self::ScopeOrCode(_) | Self::SignedBody => true,
            Self::Public | Self::Scope(_) | Self::ScopeOrTicket(_) => false,
        }
    }
}

/// An argument of a handler that says who may call the operation.
pub trait Admits {
    const ACCESS: Access;
}

impl<S: Scoped> Admits for Caller<S> {
    const ACCESS: Access = Access::Scope(S::SCOPE);
}

/// The declaration of an operation that anyone may call, without a credential.
pub struct Public;

impl Admits for Public {
    const ACCESS: Access = Access::Public;
}

impl<S: Send + Sync> FromRequestParts<S> for Public {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self)
    }
}

/// The arguments of a handler, of which the first one, or the first one after the state, says who may call the operation.
#[diagnostic::on_unimplemented(
    message = "the operation does not declare who may call it",
    note = "take `Caller<Read>`, `Caller<Write>`, `Caller<Admin>` or `Public` as the first argument, or as the first one after `State`"
)]
pub trait Declares {
    const ACCESS: Access;
}

/// For handlers with these arguments after the declaration. `M` distinguishes the kinds of handlers for axum.
macro_rules! declares {
    ($(($($rest:ident),*))+) => {$(
        impl<M, A: Admits, $($rest),*> Declares for (M, A, $($rest,)*) {
            const ACCESS: Access = A::ACCESS;
        }

        impl<M, S, A: Admits, $($rest),*> Declares for (M, State<S>, A, $($rest,)*) {
            const ACCESS: Access = A::ACCESS;
        }
    )+};
}

declares! {
    ()
    (B)
    (B, C)
    (B, C, D)
    (B, C, D, E)
    (B, C, D, E, F)
    (B, C, D, E, F, G)
}

/// One operation, with who may call it: made by [`routes!`].
pub struct Operation<S> {
    path: String,
    methods: Vec<Method>,
    handlers: MethodRouter<S>,
    access: Access,
    description: Description,
}

/// What the OpenAPI document says of an operation: its schemas, by name, and its path. Composed when the document is asked for, which
/// takes longer than all else that a server does when it starts.
type Description = Arc<dyn Fn() -> (Vec<(String, RefOr<Schema>)>, Paths) + Send + Sync>;

impl<S: Clone + Send + Sync + 'static> Operation<S> {
    /// The operation that `handler` does. Its security requirement in the OpenAPI document is the one that it declares.
    pub fn new<H, T>(path: String, methods: &[HttpMethod], handler: H, described: fn() -> UtoipaMethodRouter<S>) -> Self
    where
        H: Handler<T, S>,
        T: Declares + 'static,
    {
        let access = access_of(&handler);
        let methods: Vec<Method> = methods.iter().map(method).collect();
        let handlers = methods.iter().fold(MethodRouter::new(), |handlers, method| {
            handlers.on(filter(method), handler.clone())
        });
        let description = Arc::new(move || {
            let (schemas, mut paths, _) = described();
            for item in paths.paths.values_mut() {
                for (_, operation) in openapi::operations(item) {
                    operation.security = Some(openapi::security(access.scope(), access.needs_no_credential()));
                }
            }
            (schemas, paths)
        });
        Self {
            path,
            methods,
            handlers,
            access,
            description,
        }
    }

    /// The same operation at another path, which begins with `to` in place of `from`. The document has it there with this id and summary,
    /// and with the parameter of the path.
    pub fn again(
        &self,
        (from, to): (&str, &str),
        id: &'static str,
        summary: &'static str,
        parameter: Parameter,
    ) -> Self {
        let path = self.path.replacen(from, to, 1);
        let (described, at) = (self.description.clone(), path.clone());
        let description = Arc::new(move || {
            let (schemas, mut paths) = described();
            for item in paths.paths.values_mut() {
                for (_, operation) in openapi::operations(item) {
                    operation.operation_id = Some(id.to_owned());
                    operation.summary = Some(summary.to_owned());
                    let parameters = operation.parameters.get_or_insert_default();
                    parameters.push(RefOr::T(parameter.clone()));
                }
            }
            let items = std::mem::take(&mut paths.paths).into_values();
            paths.paths = items.map(|item| (at.clone(), item)).collect();
            (schemas, paths)
        });
        Self {
            path,
            methods: self.methods.clone(),
            handlers: self.handlers.clone(),
            access: self.access,
            description,
        }
    }
}

fn method(method: &HttpMethod) -> Method {
    match method {
        HttpMethod::Get => Method::GET,
        HttpMethod::Post => Method::POST,
        HttpMethod::Put => Method::PUT,
        HttpMethod::Delete => Method::DELETE,
        HttpMethod::Options => Method::OPTIONS,
        HttpMethod::Head => Method::HEAD,
        HttpMethod::Patch => Method::PATCH,
        HttpMethod::Trace => Method::TRACE,
    }
}

fn filter(method: &Method) -> MethodFilter {
    MethodFilter::try_from(method.clone()).expect("a method that HTTP defines")
}

fn access_of<H, T, S>(_: &H) -> Access
where
    H: Handler<T, S>,
    T: Declares,
{
    T::ACCESS
}

/// Handlers of one path, each with who may call it. Handlers that do not declare it do not compile.
#[doc(hidden)]
#[macro_export]
macro_rules! __routes {
    ($($handler:path),+ $(,)?) => {
        [$($crate::authorization::Operation::new(
            // `paste` makes the path a list of tokens, as utoipa's macro takes it.
            $crate::utoipa_axum::paste! { $crate::utoipa_axum::routes!(@path [path()] of $handler) },
            &$crate::utoipa_axum::paste! { $crate::utoipa_axum::routes!(@path [methods()] of $handler) },
            $handler,
            || $crate::utoipa_axum::routes!($handler),
        )),+]
    };
}
#[doc(inline)]
pub use crate::__routes as routes;

/// Who may call which operation.
#[derive(Debug, Clone, Default)]
pub struct AccessTable(BTreeMap<String, Vec<(Option<Method>, Access)>>);

impl AccessTable {
    /// Who may call the operation of a route's path. None: no operation has this method.
    pub fn get(&self, path: &str, method: &Method) -> Option<Access> {
        // HEAD is answered by what answers GET.
        let method = if method == Method::HEAD { &Method::GET } else { method };
        let operations = self.0.get(path)?;
        let (_, access) = operations
            .iter()
            .find(|(own, _)| own.as_ref().is_none_or(|own| own == method))?;
        Some(*access)
    }

    /// Path, method (None: all of them) and access of each operation.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&Method>, Access)> {
        self.0.iter().flat_map(|(path, operations)| {
            operations
                .iter()
                .map(move |(method, access)| (path.as_str(), method.as_ref(), *access))
        })
    }

    fn add(&mut self, path: &str, method: Option<Method>, access: Access) {
        self.0.entry(path.to_owned()).or_default().push((method, access));
    }
}

/// Routes whose operations all declare who may call them. `S` is the state of their handlers.
pub struct Routes<S = HttpState> {
    router: Router<S>,
    table: AccessTable,
    descriptions: Vec<Description>,
}

impl<S: Clone + Send + Sync + 'static> Default for Routes<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    pub fn new() -> Self {
        Self {
            router: Router::new(),
            table: AccessTable::default(),
            descriptions: Vec::new(),
        }
    }

    /// Adds operations that [`routes!`] has made.
    pub fn routes(mut self, operations: impl IntoIterator<Item = Operation<S>>) -> Self {
        for operation in operations {
            for method in operation.methods {
                self.table.add(&operation.path, Some(method), operation.access);
            }
            self.router = self.router.route(&operation.path, operation.handlers);
            self.descriptions.push(operation.description);
        }
        self
    }

    /// Adds an operation that is not in the OpenAPI document.
    pub fn undocumented<H, T>(mut self, method: Method, path: &str, handler: H) -> Self
    where
        H: Handler<T, S>,
        T: Declares + 'static,
    {
        let filter = filter(&method);
        self.table.add(path, Some(method), access_of(&handler));
        self.router = self.router.route(path, routing::on(filter, handler));
        self
    }

    /// Adds an operation that is not in the OpenAPI document, for all methods.
    pub fn undocumented_any<H, T>(mut self, path: &str, handler: H) -> Self
    where
        H: Handler<T, S>,
        T: Declares + 'static,
    {
        self.table.add(path, None, access_of(&handler));
        self.router = self.router.route(path, routing::any(handler));
        self
    }

    pub fn merge(mut self, other: Self) -> Self {
        for (path, operations) in other.table.0 {
            self.table.0.entry(path).or_default().extend(operations);
        }
        self.router = self.router.merge(other.router);
        self.descriptions.extend(other.descriptions);
        self
    }

    /// Puts a layer around the operations that were added before.
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<Route> + Clone + Send + Sync + 'static,
        L::Service: Service<Request> + Clone + Send + Sync + 'static,
        <L::Service as Service<Request>>::Response: IntoResponse + 'static,
        <L::Service as Service<Request>>::Error: Into<Infallible> + 'static,
        <L::Service as Service<Request>>::Future: Send + 'static,
    {
        self.router = self.router.layer(layer);
        self
    }

    /// Composes the OpenAPI document: these operations, added to `base`.
    pub fn document(&self, mut base: OpenApi) -> OpenApi {
        let components = base.components.get_or_insert_default();
        for description in &self.descriptions {
            let (schemas, paths) = description();
            components.schemas.extend(schemas);
            for (path, item) in paths.paths {
                match base.paths.paths.get_mut(&path) {
                    Some(known) => known.merge_operations(item),
                    None => {
                        base.paths.paths.insert(path, item);
                    }
                }
            }
        }
        base
    }

    pub fn table(&self) -> &AccessTable {
        &self.table
    }

    /// The same routes, with the state of their handlers, as part of an application with another state.
    pub fn with_state<T>(self, state: S) -> Routes<T> {
        Routes {
            router: self.router.with_state(state),
            table: self.table,
            descriptions: self.descriptions,
        }
    }

    /// The description alone: the OpenAPI document and the access table, without handlers.
    pub fn description<T: Clone + Send + Sync + 'static>(self) -> Routes<T> {
        Routes {
            router: Router::new(),
            table: self.table,
            descriptions: self.descriptions,
        }
    }

    pub fn into_router(self) -> Router<S> {
        self.router
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::{Admin, Read, Write};
    use crate::extract::Segments;

    /// Compiles where `T` does not implement [`Declares`]; where it does, `which` is ambiguous.
    macro_rules! declares_nothing {
        ($($arguments:ty),+ $(,)?) => {$({
            trait Either<A> {
                fn which() {}
            }
            impl<T> Either<()> for T {}
            impl<T: Declares> Either<u8> for T {}
            <$arguments as Either<_>>::which();
        })+};
    }

    #[test]
    fn handlers_without_a_declaration_do_not_compile() {
        declares_nothing!(
            ((),),
            ((), State<HttpState>),
            ((), Segments<u8>),
            ((), State<HttpState>, Segments<u8>),
            // A caller of whom no scope is known.
            ((), State<HttpState>, Caller),
            // Something else could refuse first.
            ((), State<HttpState>, Segments<u8>, Caller<Read>),
        );
    }

    #[test]
    fn the_first_argument_but_the_state_declares_the_scope() {
        fn declared<T: Declares>() -> Access {
            T::ACCESS
        }
        assert_eq!(declared::<((), Caller<Read>)>(), Access::Scope(Scope::Read));
        assert_eq!(
            declared::<((), State<HttpState>, Caller<Write>)>(),
            Access::Scope(Scope::Write)
        );
        assert_eq!(
            declared::<((), State<HttpState>, Caller<Admin>, Segments<u8>)>(),
            Access::Scope(Scope::Admin)
        );
        assert_eq!(declared::<((), Public, Segments<u8>)>(), Access::Public);
    }

    #[test]
    fn an_operation_is_found_by_path_and_method_and_head_is_get() {
        let mut table = AccessTable::default();
        table.add("/some", Some(Method::GET), Access::Public);
        table.add("/some", Some(Method::PUT), Access::Scope(Scope::Write));
        table.add("/any", None, Access::Scope(Scope::Read));
        for (path, method, access) in [
            ("/some", Method::GET, Some(Access::Public)),
            ("/some", Method::HEAD, Some(Access::Public)),
            ("/some", Method::PUT, Some(Access::Scope(Scope::Write))),
            ("/some", Method::POST, None),
            ("/any", Method::DELETE, Some(Access::Scope(Scope::Read))),
            ("/any", Method::HEAD, Some(Access::Scope(Scope::Read))),
            ("/other", Method::GET, None),
        ] {
            assert_eq!(table.get(path, &method), access, "{method} {path}");
        }
    }

    #[test]
    fn only_public_operations_need_no_scope() {
        for (access, scope, needs_no_credential) in [
            (Access::Public, None, true),
            (Access::Scope(Scope::Admin), Some(Scope::Admin), false),
            (Access::ScopeOrTicket(Scope::Read), Some(Scope::Read), true),
            (Access::ScopeOrCode(Scope::Read), Some(Scope::Read), true),
        ] {
            assert_eq!(
                (access.scope(), access.needs_no_credential()),
                (scope, needs_no_credential),
                "{access:?}"
            );
        }
    }
}
