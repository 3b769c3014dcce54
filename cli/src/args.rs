//! The command line of `rejoin` and its help.
//!
//! `main` parses it; each verb's own arguments are in the verb's file.
use clap::{Parser, Subcommand};

use crate::{
    api, audit, calendars, cells, chat, completions, dev, doctor, exit, files, global::Global, graph, init, install,
    keys, mcp, migrate, models, openapi, prices, projects, questions, queue, routing, runs, schedules, secrets,
    sign_in, sources, tail, tasks, web, webhooks, worker,
};

/// Agent runs that you can leave and rejoin.
///
/// A chat message becomes a job in PostgreSQL; any worker of a fleet runs the agent; everything that happens is an
/// event in one log per conversation, which any number of readers can follow from any point. Close the tab, kill the
/// worker, restart the database: the conversation continues where it was.
///
/// On a terminal the output is for people. With --json, stdout contains only data, one JSON value per line; progress
/// and advice go to stderr.
#[derive(Debug, Parser)]
#[command(
    name = "rejoin",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    after_long_help = long_help(),
    after_help = "See `rejoin --help` for getting started and exit codes."
)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Introduction and exit codes.
fn long_help() -> String {
    format!("{BEGIN}\n\n{}", exit::HELP)
}

const BEGIN: &str = "\
Getting started:
  rejoin dev                    run everything on this machine, with a demo project
  rejoin chat \"What is there?\"  in another terminal, with the key that `dev` prints

Running a fleet:
  rejoin migrate up             once per release, before its processes start
  rejoin api                    one or more, behind any load balancer
  rejoin worker                 one or more, on any machine";

#[derive(Debug, Subcommand)]
pub enum Command {
    Dev(dev::Args),
    Init(init::Args),
    Api(Box<api::Args>),
    Worker(Box<worker::Args>),
    Migrate(migrate::Args),
    Chat(chat::Args),
    Tail(tail::Args),
    Runs(runs::Args),
    Queue(queue::Args),
    Graph(graph::Args),
    Mcp(mcp::Args),
    Tasks(tasks::Args),
    Questions(questions::Args),
    Schedules(schedules::Args),
    Sources(sources::Args),
    Web(web::Args),
    Webhooks(webhooks::Args),
    Calendars(calendars::Args),
    Files(files::Args),
    Models(models::Args),
    Prices(prices::Args),
    Routing(routing::Args),
    Install(install::Args),
    Uninstall(install::UninstallArgs),
    Projects(projects::Args),
    Cells(cells::Args),
    Keys(keys::Args),
    SignIn(sign_in::Args),
    Secrets(secrets::Args),
    Audit(audit::Args),
    Doctor(doctor::Args),
    Openapi(openapi::Args),
    Completions(completions::Args),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_long_help_teaches_how_to_begin_and_lists_the_exit_codes() {
        let help = Cli::command().render_long_help().to_string();
        assert!(help.contains("rejoin dev"), "{help}");
        assert!(help.contains(exit::HELP), "{help}");
    }

    #[test]
    fn every_command_says_what_it_does_and_shows_an_example() {
        for command in Cli::command().get_subcommands_mut() {
            let name = command.get_name().to_owned();
            let help = command.render_long_help().to_string();
            assert!(
                help.contains(&format!("rejoin {name}")),
                "no example of `rejoin {name}`:\n{help}"
            );
        }
    }

    #[test]
    fn what_the_wire_contract_promises_is_understood() {
        for line in [
            "rejoin dev --port 7420 --workers 3 --data-dir /tmp/x --database-url postgres://h/d --json",
            "rejoin api --database-url postgres://h/d --listen 127.0.0.1:0 --migrate",
            "rejoin worker --database-url postgres://h/d --slots 3 --log-json",
            "rejoin migrate up",
            "rejoin migrate down",
            "rejoin migrate status --json",
            "rejoin chat hello --agent graph --conversation 019a0000-0000-7000-8000-000000000001",
            "rejoin chat",
            "rejoin tail 019a0000-0000-7000-8000-000000000001 --after 7",
            "rejoin runs list",
            "rejoin runs show 019a0000-0000-7000-8000-000000000001",
            "rejoin runs cancel 019a0000-0000-7000-8000-000000000001",
            "rejoin schedules add nightly --cron @daily --agent tidier --input go --missed skip",
            "rejoin schedules add launch --at 2027-01-01T09:00:00Z --tasks launch.yaml --disabled",
            "rejoin runs list --agent a --since 2026-01-01T00:00:00Z --top-level",
            "rejoin runs export 019a0000-0000-7000-8000-000000000001",
            "rejoin runs fork 019a0000-0000-7000-8000-000000000001 --step 2 again",
            "rejoin questions list",
            "rejoin questions answer 019a0000-0000-7000-8000-000000000001 yes",
            "rejoin schedules list --json",
            "rejoin sources add shop postgres://u@h/d --secret-file - --force",
            "rejoin sources query shop select --rows 5 --json",
            "rejoin web set --provider searxng --base-url http://s:8080 --visit --allow a.example --allow b.example",
            "rejoin web test",
            "rejoin webhooks add https://hooks.example/rejoin --event run.ended --event question.asked",
            "rejoin webhooks list --json",
            "rejoin webhooks set 019a0000-0000-7000-8000-000000000001 --event dag.ended",
            "rejoin webhooks rotate-secret 019a0000-0000-7000-8000-000000000001 --overlap 0",
            "rejoin webhooks test 019a0000-0000-7000-8000-000000000001",
            "rejoin webhooks deliveries 019a0000-0000-7000-8000-000000000001 --state dead",
            "rejoin webhooks replay 019a0000-0000-7000-8000-000000000001 --dead",
            "rejoin webhooks remove 019a0000-0000-7000-8000-000000000001",
            "rejoin calendars export Work work.ics",
            "rejoin chat look --attach a.png --attach b.pdf",
            "rejoin files put a.png b.pdf",
            "rejoin files list --json",
            "rejoin files get 019a0000-0000-7000-8000-000000000001 -",
            "rejoin files rm 019a0000-0000-7000-8000-000000000001",
            "rejoin schedules disable nightly",
            "rejoin models --provider gemini --can tools,images flash --retired --json",
            "rejoin prices list --all",
            "rejoin routing show",
            "rejoin routing set --percent 50 --prefer postgres-analyst --control none",
            "rejoin routing stats --days 7 --json",
            "rejoin routing misrouted",
            "rejoin prices set ollama:* --input 0 --output 0.5",
            "rejoin prices remove ollama:*",
            "rejoin queue stats",
            "rejoin queue retry 7",
            "rejoin queue dead",
            "rejoin queue pause default",
            "rejoin queue resume default",
            "rejoin graph import demo.ndjson",
            "rejoin graph import - --on-error skip --project demo",
            "rejoin graph export",
            "rejoin cells add b --url-from env:CELL_B_URL",
            "rejoin cells list --json",
            "rejoin cells move acme b --wait-s 10 --settle-ms 100 --interrupt",
            "rejoin cells move acme --undo",
            "rejoin cells drain b --to c",
            "rejoin cells clean --older-than-s 0",
            "rejoin keys create --name laptop",
            "rejoin keys create --project acme --user ann --create --scopes read,admin",
            "rejoin keys list",
            "rejoin keys revoke 019a0000-0000-7000-8000-000000000001",
            "rejoin secrets new-key",
            "rejoin secrets set MCP_TOKEN --project demo",
            "rejoin secrets list --json",
            "rejoin secrets remove MCP_TOKEN",
            "rejoin secrets rotate --check",
            "rejoin audit list --project demo --limit 5",
            "rejoin audit verify --json",
            "rejoin audit verify --expect 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
            "rejoin doctor",
            "rejoin openapi",
            "rejoin completions bash",
        ] {
            if let Err(error) = Cli::try_parse_from(line.split(' ')) {
                panic!("{line}: {error}");
            }
        }
    }
}
