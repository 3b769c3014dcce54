//! Outgoing connections and child processes: the SSRF guard, the HTTP fetcher behind it, and a watchdog that ends children with their owner.
//!
//! # Layout
//! - `ssrf_guard` the SSRF guard: which addresses may be connected to
//! - `fetch`    HTTP behind that guard: addresses, redirects, sizes, time
//! - `origin`   the address of this installation, in settings
//! - `robots`   what sites ask robots (robots.txt)
//! - `tls`      the HTTP clients' TLS: root certificates, read once
//! - `watchdog` ends child processes with their owner

pub mod fetch;
pub mod origin;
pub mod robots;
pub mod ssrf_guard;
pub mod tls;
pub mod watchdog;
