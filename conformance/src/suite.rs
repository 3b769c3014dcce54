//! Runs cases over a server, with each seed, and keeps verdicts and transcripts. Called by the command line.
//!
//! A server that has failed a case is started from nothing before the next one, so that a case is not blamed for an earlier one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::time::timeout;

use crate::adapter::Adapter;
use crate::cases::{self, Case, Kind};
use crate::plan::Plan;
use crate::play::{self, Played};
use crate::processes::Launch;
use crate::random::Random;
use crate::results::{About, Results, Run};
use crate::script::Script;
use crate::shrink::Shrinking;
use crate::special;
use crate::target::{Place, Target, install_values};
use crate::template::expand;
use crate::transcript::Transcript;
use crate::verdict::{Judgement, Verdict};

/// A case that takes longer hangs, whatever it waits for.
const CASE_LIMIT: Duration = Duration::from_secs(900);
/// Words of the turn that shows that an adapter works.
const WARM_WORDS: usize = 5;

/// What is run, and where.
#[derive(Debug, Clone)]
pub struct Options {
    pub seeds: Vec<u64>,
    /// Families; all, if empty.
    pub families: Vec<String>,
    /// Cases; all, if empty.
    pub cases: Vec<String>,
    pub fault: Option<String>,
    /// Where results and transcripts go.
    pub out: PathBuf,
    /// What adapters install.
    pub cache: PathBuf,
    pub shrinks: bool,
    /// Keeps the transcripts of good cases, too.
    pub keeps_all: bool,
}

impl Options {
    /// The command that repeats the run over a server.
    fn command(&self, target: &str) -> String {
        let mut words = format!("resume-suite run --target {target}");
        words += &match self.seeds.as_slice() {
            [seed] if *seed > 1 => format!(" --seed {seed}"),
            seeds => format!(" --seeds {}", seeds.len()),
        };
        for (option, names) in [("family", &self.families), ("case", &self.cases)] {
            if !names.is_empty() {
                words += &format!(" --{option} {}", names.join(","));
            }
        }
        if let Some(fault) = &self.fault {
            words += &format!(" --fault {fault}");
        }
        words
    }

    /// The cases that were asked for.
    ///
    /// # Errors
    /// A name is unknown.
    pub fn chosen(&self) -> Result<Vec<&'static Case>> {
        let families: BTreeSet<&str> = cases::families().into_iter().collect();
        for family in &self.families {
            if !families.contains(family.as_str()) {
                bail!(
                    "there is no family {family}; there are: {}",
                    cases::families().join(", ")
                );
            }
        }
        for name in &self.cases {
            if cases::named(name).is_none() {
                bail!("there is no case {name}; `resume-suite list` shows all");
            }
        }
        let is_chosen = |case: &&Case| {
            (self.families.is_empty() || self.families.iter().any(|family| family == case.family))
                && (self.cases.is_empty() || self.cases.iter().any(|name| name == case.name))
        };
        Ok(cases::ALL.iter().filter(is_chosen).collect())
    }
}

/// Installs a server, if its adapter says how.
///
/// # Errors
/// The command fails.
pub async fn install(adapter: &Adapter, cache: &Path) -> Result<()> {
    if adapter.install.is_empty() {
        return Ok(());
    }
    std::fs::create_dir_all(cache).with_context(|| format!("can't create {}", cache.display()))?;
    command(adapter, cache, &adapter.install)?.run().await?;
    Ok(())
}

fn command(adapter: &Adapter, cache: &Path, words: &[String]) -> Result<Launch> {
    let values = install_values(adapter, cache);
    let command = words.iter().map(|word| expand(word, &values)).collect::<Result<_>>()?;
    Ok(Launch {
        command,
        directory: Some(adapter.folder.clone()),
        ..Launch::default()
    })
}

async fn versions(adapter: &Adapter, cache: &Path) -> Vec<String> {
    if adapter.version.is_empty() {
        return Vec::new();
    }
    let printed = match command(adapter, cache, &adapter.version) {
        Ok(launch) => launch.run().await,
        Err(error) => Err(error),
    };
    match printed {
        Ok(text) => text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect(),
        Err(error) => vec![format!("unknown: {error:#}")],
    }
}

/// A run over one server.
struct Suite<'a> {
    adapter: &'a Adapter,
    options: &'a Options,
    work: PathBuf,
    /// None: it is started with the next case.
    target: Option<Target>,
    starts: usize,
    turns: usize,
}

/// Runs all chosen cases. `say` gets a line for each.
///
/// # Errors
/// The server can't be started, or does not answer a first turn; results can't be written.
pub async fn run(adapter: &Adapter, options: &Options, say: &dyn Fn(&str)) -> Result<Results> {
    let chosen = options.chosen()?;
    let about = About {
        name: adapter.name.clone(),
        title: adapter.title.clone(),
        homepage: adapter.homepage.clone(),
        versions: versions(adapter, &options.cache).await,
        configuration: adapter.configuration.clone(),
    };
    let mut results = Results::new(
        about,
        options.seeds.clone(),
        options.command(&adapter.name),
        options.fault.clone(),
    );
    std::fs::create_dir_all(&options.out).with_context(|| format!("can't create {}", options.out.display()))?;
    let file = options.out.join(format!("{}.json", adapter.name));
    let work = std::env::temp_dir().join(format!("resume-suite-{}-{}", std::process::id(), adapter.name));
    let mut suite = Suite {
        adapter,
        options,
        work,
        target: None,
        starts: 0,
        turns: 0,
    };
    let first = options.seeds.first().copied();
    for seed in &options.seeds {
        for case in chosen.iter().filter(|case| case.is_due(*seed) || first == Some(*seed)) {
            let run = match case.refused_by(adapter) {
                Some(reason) if first == Some(*seed) => unsupported(case, *seed, reason),
                Some(_) => continue,
                None => suite.case(case, *seed).await?,
            };
            say(&line(&run));
            results.runs.push(run);
            // After each case: a run that is interrupted leaves what it has.
            results.write(&file)?;
        }
    }
    suite.end().await?;
    results.is_complete = true;
    results.write(&file)?;
    Ok(results)
}

fn unsupported(case: &Case, seed: u64, reason: String) -> Run {
    Run {
        case: case.name.to_owned(),
        family: case.family.to_owned(),
        seed,
        verdict: Verdict::Unsupported,
        details: vec![reason],
        go_on_ms: None,
        plan: Vec::new(),
        shrunk: None,
        transcript: None,
        took_ms: 0,
    }
}

/// A run as a line.
fn line(run: &Run) -> String {
    let detail = run
        .details
        .first()
        .map(|detail| format!("  {detail}"))
        .unwrap_or_default();
    let seconds = Duration::from_millis(run.took_ms).as_secs_f64();
    format!(
        "{:<18} {:<32} seed {:<4} {seconds:>6.1} s{detail}",
        run.verdict.label(),
        run.case,
        run.seed
    )
}

impl Suite<'_> {
    /// The running server, or a new one. `has_standby`: for a case in which the standby of its database takes over.
    async fn running(&mut self, has_standby: bool) -> Result<Target> {
        match self.target.take() {
            Some(target) if target.has_standby == has_standby => return Ok(target),
            Some(target) => target.stop().await?,
            None => {}
        }
        self.starts += 1;
        let place = Place {
            folder: self.work.join(self.starts.to_string()),
            cache: self.options.cache.clone(),
            fault: self.options.fault.clone(),
            has_standby,
        };
        let target = Target::start(self.adapter, &place)
            .await
            .with_context(|| format!("{} does not start", self.adapter.name))?;
        if self.options.fault.is_none() {
            self.warm(&target).await?;
        }
        Ok(target)
    }

    /// A turn without faults: a server that does not answer it has a wrong adapter, rather than lost words.
    async fn warm(&mut self, target: &Target) -> Result<()> {
        let plan = Plan::quiet(Script::words(self.id("warm", 0), WARM_WORDS, 0));
        let transcript = Transcript::default();
        let played = play::play(target, &plan, &mut Random::of(0, &plan.script.id), &transcript).await?;
        if played.judgement.verdict.is_good() {
            return Ok(());
        }
        let path = self.options.out.join(format!("{}-warm.txt", self.adapter.name));
        transcript.save(&path)?;
        bail!(
            "{} does not answer a first turn: {}; its transcript is {}, its logs are in {}",
            self.adapter.name,
            played.judgement.details.join("; "),
            path.display(),
            target.folder.display()
        );
    }

    /// An id that no other turn of this run has.
    fn id(&mut self, name: &str, seed: u64) -> String {
        self.turns += 1;
        format!("{name}-{seed}-{}", self.turns)
    }

    async fn case(&mut self, case: &Case, seed: u64) -> Result<Run> {
        let target = self.running(case.has_standby()).await?;
        let mut random = Random::of(seed, case.name);
        let id = self.id(case.name, seed);
        let transcript = Transcript::default();
        let plan = match case.kind {
            Kind::Plan(make) => Some(make(&mut random, self.adapter, id.clone())),
            Kind::Special(_) => None,
        };
        let playing = async {
            match (case.kind, &plan) {
                (Kind::Special(special), _) => special::run(&target, special, &mut random, id, &transcript).await,
                (Kind::Plan(_), Some(plan)) => play::play(&target, plan, &mut random, &transcript).await,
                (Kind::Plan(_), None) => bail!("a plan is missing"),
            }
        };
        let played = outcome(timeout(CASE_LIMIT, playing).await);
        let is_good = played.judgement.verdict.is_good() || played.judgement.verdict == Verdict::Unsupported;
        self.put_back(target, is_good).await;
        let shrunk = match &plan {
            Some(plan) if !is_good && self.options.shrinks => {
                self.shrink(plan, seed, case, played.judgement.verdict).await?
            }
            _ => None,
        };
        let name = format!("{}-{}-{seed}.txt", self.adapter.name, case.name);
        let is_kept = !is_good || self.options.keeps_all;
        if is_kept {
            transcript.save(&self.options.out.join(&name))?;
        }
        let lines = |plan: &Plan| plan.actions.iter().map(ToString::to_string).collect::<Vec<String>>();
        Ok(Run {
            case: case.name.to_owned(),
            family: case.family.to_owned(),
            seed,
            verdict: played.judgement.verdict,
            details: played.judgement.details,
            go_on_ms: played.go_on_ms,
            plan: plan.as_ref().map(lines).unwrap_or_default(),
            shrunk: shrunk.as_ref().map(lines),
            transcript: is_kept.then_some(name),
            took_ms: transcript.now_ms(),
        })
    }

    /// Keeps a server for the next case, or ends it.
    async fn put_back(&mut self, target: Target, is_good: bool) {
        if is_good && !target.is_used_up() {
            self.target = Some(target);
        } else {
            // What does not stop is killed when it is dropped.
            let _ = target.stop().await;
        }
    }

    /// Looks for the smallest plan with the same verdict.
    async fn shrink(&mut self, plan: &Plan, seed: u64, case: &Case, verdict: Verdict) -> Result<Option<Plan>> {
        let mut shrinking = Shrinking::new(plan.clone());
        while let Some(mut candidate) = shrinking.candidate() {
            let target = self.running(case.has_standby()).await?;
            candidate.script.id = self.id(case.name, seed);
            let transcript = Transcript::default();
            let mut random = Random::of(seed, &candidate.script.id);
            let playing = play::play(&target, &candidate, &mut random, &transcript);
            let found = outcome(timeout(CASE_LIMIT, playing).await).judgement.verdict;
            self.put_back(target, found.is_good()).await;
            shrinking.tried(candidate, found == verdict);
        }
        Ok(shrinking.found(plan))
    }

    async fn end(&mut self) -> Result<()> {
        if let Some(target) = self.target.take() {
            target.stop().await?;
        }
        if self.work.exists() {
            // Some files may belong to the database's user.
            let _ = std::fs::remove_dir_all(&self.work);
        }
        Ok(())
    }
}

/// What a case has shown, also if it did not end, or the server did not come back.
fn outcome(played: Result<Result<Played>, tokio::time::error::Elapsed>) -> Played {
    let judgement = match played {
        Ok(Ok(played)) => return played,
        Ok(Err(error)) => Judgement::of(Verdict::Error, format!("{error:#}")),
        Err(_) => Judgement::of(Verdict::Hang, format!("the case did not end within {CASE_LIMIT:?}")),
    };
    Played {
        judgement,
        go_on_ms: None,
    }
}
