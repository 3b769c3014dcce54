//! Models and their providers: streams, choice, fallbacks, costs, credentials, token counts, and strict stand-ins of each provider.

mod choice;
mod costs;
mod fallbacks;
mod provider_standin;
mod providers;
mod stream_failures;
mod streams;
mod token_counts;
mod vertex_credentials;
