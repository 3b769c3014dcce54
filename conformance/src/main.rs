//! `resume-suite`: lists cases and adapters, runs them, and writes reports.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand};
use rejoin_conformance::adapter::Adapter;
use rejoin_conformance::report::{Report, markdown, page};
use rejoin_conformance::results::Results;
use rejoin_conformance::suite::{self, Options};
use rejoin_conformance::{broken, cases};

/// The adapters of a checkout.
const CHECKOUT: &str = "conformance/adapters";

/// The kill-and-resume suite: does an answer survive readers that leave, connections that break and processes that are killed?
///
/// Each server is described by an adapter, a folder with an `adapter.toml`. The README of the suite shows how one is written.
#[derive(Debug, Parser)]
#[command(name = "resume-suite", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// The folder of adapters
    #[arg(long, global = true, env = "RESUME_SUITE_ADAPTERS")]
    adapters: Option<PathBuf>,
    /// Where adapters install servers
    #[arg(
        long,
        global = true,
        env = "RESUME_SUITE_CACHE",
        default_value = ".cache/conformance"
    )]
    cache: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// All cases and adapters
    List,
    /// Install servers, as their adapters say
    Install {
        /// Adapters by name, folders of adapters, or `all`
        #[arg(long = "target", required = true, value_delimiter = ',')]
        targets: Vec<String>,
    },
    /// Run cases; fails if a verdict is not good
    Run(RunArgs),
    /// Run builds that break a promise each: fails if no case notices
    Broken {
        #[arg(long = "target", default_value = "rejoin")]
        target: String,
        /// Names of faults; all, if none
        names: Vec<String>,
        #[arg(long, default_value = "target/conformance")]
        out: PathBuf,
    },
    /// Write the report over results
    Report {
        /// Files of `run`, or folders with them
        results: Vec<PathBuf>,
        /// The page in Markdown; standard output, if absent
        #[arg(long)]
        markdown: Option<PathBuf>,
        /// The static web page
        #[arg(long)]
        html: Option<PathBuf>,
    },
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    /// Adapters by name, folders of adapters, or `all`
    #[arg(long = "target", required = true, value_delimiter = ',')]
    targets: Vec<String>,
    /// Number of seeds, from 1
    #[arg(long, default_value_t = 1, conflicts_with = "seed")]
    seeds: u64,
    /// One seed: repeats a run
    #[arg(long)]
    seed: Option<u64>,
    /// Only these families
    #[arg(long = "family", value_delimiter = ',')]
    families: Vec<String>,
    /// Only these cases
    #[arg(long = "case", value_delimiter = ',')]
    cases: Vec<String>,
    /// Start a build of the server that breaks this promise
    #[arg(long)]
    fault: Option<String>,
    /// Where results and transcripts go
    #[arg(long, default_value = "target/conformance")]
    out: PathBuf,
    /// Do not look for smaller plans of failures
    #[arg(long)]
    no_shrink: bool,
    /// Keep the transcripts of good cases, too
    #[arg(long)]
    transcripts: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let done = runtime.context("no runtime").and_then(|runtime| {
        runtime.block_on(async {
            tokio::select! {
                done = obey(&cli) => done,
                // All parts of servers are killed when their run is dropped.
                _ = tokio::signal::ctrl_c() => bail!("interrupted"),
            }
        })
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("resume-suite: {error:#}");
            ExitCode::from(2)
        }
    }
}

impl Cli {
    /// The folder of adapters: the one that was named, that of a checkout, or that of a package for pip or npm.
    fn adapters(&self) -> PathBuf {
        if let Some(named) = &self.adapters {
            return named.clone();
        }
        let program = std::env::current_exe()
            .and_then(std::fs::canonicalize)
            .unwrap_or_default();
        let prefix = program.parent().and_then(Path::parent).unwrap_or(Path::new("."));
        let packaged = [prefix.join("share/resume-suite/adapters"), prefix.join("adapters")];
        let checkout = PathBuf::from(CHECKOUT);
        if checkout.is_dir() {
            return checkout;
        }
        packaged.into_iter().find(|folder| folder.is_dir()).unwrap_or(checkout)
    }
}

/// Obeys. Returns whether all verdicts are good.
async fn obey(cli: &Cli) -> Result<bool> {
    match &cli.command {
        Command::List => list(&cli.adapters()).map(|()| true),
        Command::Install { targets } => {
            for adapter in chosen(&cli.adapters(), targets)? {
                print(&format!("installing {}", adapter.name));
                suite::install(&adapter, &absolute(&cli.cache)?).await?;
            }
            Ok(true)
        }
        Command::Run(args) => run(cli, args).await,
        Command::Broken { target, names, out } => {
            let adapter = one(&cli.adapters(), target)?;
            let options = options(cli, &RunArgs::of_broken(out.clone()))?;
            broken::run(&adapter, names, &options, &print).await.map(|()| true)
        }
        Command::Report {
            results,
            markdown,
            html,
        } => report(cli, results, markdown.as_deref(), html.as_deref()).map(|()| true),
    }
}

/// A reader that has gone, such as `head`, does not end a run.
fn print(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

impl RunArgs {
    fn of_broken(out: PathBuf) -> Self {
        Self {
            targets: Vec::new(),
            seeds: 1,
            seed: None,
            families: Vec::new(),
            cases: Vec::new(),
            fault: None,
            out,
            no_shrink: true,
            transcripts: false,
        }
    }
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("can't find {}", path.display()))
}

fn options(cli: &Cli, args: &RunArgs) -> Result<Options> {
    Ok(Options {
        seeds: args.seed.map_or_else(|| (1..=args.seeds).collect(), |seed| vec![seed]),
        families: args.families.clone(),
        cases: args.cases.clone(),
        fault: args.fault.clone(),
        out: absolute(&args.out)?,
        cache: absolute(&cli.cache)?,
        shrinks: !args.no_shrink,
        keeps_all: args.transcripts,
    })
}

/// The adapter with a name, or in a folder.
fn one(adapters: &Path, target: &str) -> Result<Adapter> {
    let named = adapters.join(target);
    let path = if named.exists() { named } else { PathBuf::from(target) };
    if !path.exists() {
        bail!(
            "there is no adapter {target} in {}, and no such folder",
            adapters.display()
        );
    }
    Adapter::read(&path)
}

fn chosen(adapters: &Path, targets: &[String]) -> Result<Vec<Adapter>> {
    if targets == ["all"] {
        return Adapter::all(adapters);
    }
    targets.iter().map(|target| one(adapters, target)).collect()
}

fn list(adapters: &Path) -> Result<()> {
    for case in cases::ALL {
        print(&format!(
            "case     {:<10} {:<34} {}",
            case.family, case.name, case.about
        ));
    }
    for adapter in Adapter::all(adapters)? {
        let why = adapter.never_run.map(|why| format!(" ({why})")).unwrap_or_default();
        print(&format!("adapter  {:<26} {}{why}", adapter.name, adapter.title));
    }
    Ok(())
}

async fn run(cli: &Cli, args: &RunArgs) -> Result<bool> {
    let options = options(cli, args)?;
    let is_all = args.targets == ["all"];
    let mut is_good = true;
    for adapter in chosen(&cli.adapters(), &args.targets)? {
        print(&format!("== {}", adapter.title));
        match suite::run(&adapter, &options, &print).await {
            Ok(results) => is_good &= results.is_good(),
            // One that can't be had here is a missing column, not the end of all.
            Err(error) if is_all => {
                eprintln!("resume-suite: {}: {error:#}", adapter.name);
                is_good = false;
            }
            Err(error) => return Err(error),
        }
    }
    print(&format!("results: {}", options.out.display()));
    Ok(is_good)
}

fn report(cli: &Cli, paths: &[PathBuf], markdown_to: Option<&Path>, html_to: Option<&Path>) -> Result<()> {
    let mut results = Vec::new();
    for path in paths {
        if path.is_dir() {
            let mut files: Vec<PathBuf> = std::fs::read_dir(path)?
                .map(|entry| Ok(entry?.path()))
                .collect::<Result<_>>()?;
            files.sort();
            for file in files
                .iter()
                .filter(|file| file.extension().is_some_and(|end| end == "json"))
            {
                results.push(Results::read(file)?);
            }
        } else {
            results.push(Results::read(path)?);
        }
    }
    if let Some(broken) = results.iter().find(|results| results.fault.is_some()) {
        bail!(
            "{} was run over a build that breaks a promise: no part of a report",
            broken.target.name
        );
    }
    let report = Report::new(results, &Adapter::all(&cli.adapters())?);
    let text = markdown::render(&report);
    match markdown_to {
        Some(path) => std::fs::write(path, text).with_context(|| format!("can't write {}", path.display()))?,
        None => print(text.trim_end()),
    }
    if let Some(path) = html_to {
        let text = page::render(&report);
        std::fs::write(path, text).with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(())
}
