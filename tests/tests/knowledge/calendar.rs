//! Calendars: their events, files and feeds, their links with the work graph, and synchronisation with Google.

mod by_hand;
mod entities;
mod event_access;
mod events;
mod feeds;
mod files;
mod google;
mod google_authorization;
mod google_crashes;
mod google_faults;
mod operations;
