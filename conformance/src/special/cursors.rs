//! Cases that read an ended turn from many cursors: from each byte at which a connection can be lost, from earlier ones, from those that no stream has
//! given, and after a long time.

use std::collections::BTreeMap;

use anyhow::Result;

use super::{ANSWER_LIMIT, Scene, silent};
use crate::cut::Cut;
use crate::frames::Decoder;
use crate::judge::{self, Expect};
use crate::random::Random;
use crate::reader::Read;
use crate::script::words_of;
use crate::stream_rules::Cursor;
use crate::target::Turn;
use crate::verdict::{Judgement, Verdict};
use crate::view::View;

/// Maximum number of cuts of one stream; further ones are for other seeds.
const MAX_CUTS: usize = 150;

impl Scene<'_> {
    pub(super) async fn cut_every_byte(&self, random: &mut Random) -> Result<Judgement> {
        let (turn, mut judgement) = self.whole(self.script(), random).await?;
        let Some(read) = &self.target.adapter.requests.read else {
            return Ok(Judgement::of(Verdict::Unsupported, "the adapter has no `read`"));
        };
        let (length, _) = self.listen(read, &turn).await?;
        let stride = length.div_ceil(MAX_CUTS).max(1);
        let mut at = random.between(0, stride - 1);
        while at < length && judgement.verdict.is_good() {
            let name = format!("reader cut after byte {at}");
            let read = self
                .reader(&turn, &name)
                .cutting(Cut::AnyByte, at)
                .follow(None, silent())
                .await;
            judgement.merge(judge::read(&turn.script, &read, Expect::Whole));
            at += stride;
        }
        self.transcript.note(&format!("{length} bytes, a cut each {stride}"));
        Ok(judgement)
    }

    pub(super) async fn cursor_before(&self, random: &mut Random) -> Result<Judgement> {
        let (turn, mut judgement) = self.whole(self.script(), random).await?;
        let whole = self.read(&turn, "reader of all", None, None).await;
        judgement.merge(judge::read(&turn.script, &whole, Expect::Whole));
        for _ in 0..3 {
            judgement.merge(self.suffix(&turn, &whole, random).await);
        }
        Ok(judgement)
    }

    /// Reads from an earlier cursor: the frames must be those that followed it the first time.
    async fn suffix(&self, turn: &Turn, whole: &Read, random: &mut Random) -> Judgement {
        let cursors = positions(&whole.view.cursors);
        if cursors.len() < 3 {
            return Judgement::of(Verdict::Error, "the stream has fewer than three cursors");
        }
        let at = random.between(0, cursors.len() - 2);
        let from = &cursors[at].1;
        let again = self
            .read(turn, &format!("reader from {from}"), None, Some(from.clone()))
            .await;
        let (expected, found) = (&cursors[at + 1..], positions(&again.view.cursors));
        let is_same = match self.target.adapter.stream.cursor {
            // A new reader counts from the beginning.
            Cursor::Count => found.len() == expected.len(),
            _ => found
                .iter()
                .map(|(position, _)| position)
                .eq(expected.iter().map(|(position, _)| position)),
        };
        if is_same {
            return Judgement::default();
        }
        let verdict = if found.len() > expected.len() {
            Verdict::Duplicated
        } else {
            Verdict::Lost
        };
        Judgement::of(
            verdict,
            format!(
                "from cursor {from}: {} frames, and {} followed it before",
                found.len(),
                expected.len()
            ),
        )
    }

    pub(super) async fn cursor_ahead(&self, random: &mut Random) -> Result<Judgement> {
        match self.target.adapter.stream.cursor_ahead.clone() {
            Some(cursor) => self.odd_cursor(random, &cursor).await,
            None => Ok(Judgement::of(Verdict::Unsupported, "the adapter has no `cursor_ahead`")),
        }
    }

    /// A cursor that no stream has given.
    pub(super) async fn odd_cursor(&self, random: &mut Random, cursor: &str) -> Result<Judgement> {
        let (mut turn, mut judgement) = self.whole(self.script(), random).await?;
        let Some(call) = &self.target.adapter.requests.read_from else {
            return Ok(Judgement::of(Verdict::Unsupported, "the adapter has no `read_from`"));
        };
        turn.values.insert("cursor".to_owned(), cursor.to_owned());
        let mut response = self.target.ask(call, &turn.values).await?;
        let status = response.status;
        self.transcript.note(&format!("cursor {cursor}: {status}"));
        let says_so = (400..500).contains(&status) || self.target.adapter.stream.nothing_follows.contains(&status);
        if says_so {
            return Ok(judgement);
        }
        if status != 200 {
            judgement.find(Verdict::Error, format!("the cursor {cursor} is answered with {status}"));
            return Ok(judgement);
        }
        match response.text(ANSWER_LIMIT).await {
            Ok(body) => {
                let rules = &self.target.adapter.stream;
                let mut view = View::default();
                for frame in Decoder::new(rules.framing).push(body.as_bytes()) {
                    view.apply(&frame, rules, &BTreeMap::new());
                }
                let is_whole = judge::text(&turn.script, &view.text(), Expect::Whole).verdict.is_good();
                if !is_whole && view.errors.is_empty() {
                    let words = words_of(&view.text()).len();
                    let detail =
                        format!("the cursor {cursor} is answered with {words} words, as if nothing were missing");
                    judgement.find(Verdict::Lost, detail);
                }
            }
            Err(_) => judgement.find(
                Verdict::Hang,
                format!("the cursor {cursor} is answered with a stream that never ends"),
            ),
        }
        Ok(judgement)
    }

    pub(super) async fn aged(&self, random: &mut Random, age_s: u64) -> Result<Judgement> {
        let (turn, mut judgement) = self.whole(self.script(), random).await?;
        let whole = self.read(&turn, "reader of all", None, None).await;
        let further = [("age_s", age_s.to_string())];
        self.target.run(&self.target.adapter.age, &further).await?;
        judgement.merge(self.suffix(&turn, &whole, random).await);
        let again = self.read(&turn, "reader of an old turn", None, None).await;
        judgement.merge(judge::read(&turn.script, &again, Expect::Whole));
        Ok(judgement)
    }
}

/// The different positions of cursors, each with one that names it: several frames may share one, with or without leading zeros.
fn positions(cursors: &[String]) -> Vec<(String, String)> {
    let position = |cursor: &String| (cursor.trim_start_matches('0').to_owned(), cursor.clone());
    let mut positions: Vec<(String, String)> = cursors.iter().map(position).collect();
    positions.dedup_by(|one, other| one.0 == other.0);
    positions
}
