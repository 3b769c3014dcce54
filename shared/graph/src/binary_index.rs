//! In-process binary-quantized index of large workspaces' vectors. A Hamming scan of a million vectors takes PostgreSQL
//! about 200 ms, and this loop a few milliseconds. Called by `vectors`, which ranks the best candidates exactly and
//! asks the database which of them are live.
//!
//! A workspace is loaded in the background, after a scan through the database was slow; newer embeddings are read before
//! each search. Invariant: the index only yields candidates: a missing or stale vector never makes a result wrong.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use sqlx::PgPool;
use tracing::warn;
use uuid::Uuid;

use super::Error;
use super::query_vector::QueryVector;

/// A database scan that takes this long triggers loading of a workspace's vectors.
pub const SLOW_SCAN: Duration = Duration::from_millis(5);
/// Maximum size of all binary vectors in memory, in bytes; least recently used workspaces are evicted. Two million
/// vectors of 384 dimensions.
const MAX_BYTES: usize = 128 * 1024 * 1024;
/// Number of rows per read: each read may scan all objects for their types.
const PAGE: i64 = 250_000;
/// Maximum age before a reload: of vectors changed since, both the old and the new ones are loaded.
const MAX_AGE: Duration = Duration::from_secs(1_800);
/// Maximum number of later vectors before a reload: they are read again and again for a while.
const MAX_LATER: usize = 20_000;
/// Maximum number of distinct object types.
const MAX_TYPES: usize = 1_000;
/// Maximum duration of a transaction that stores vectors; later ones could be missed, in seconds.
const OVERLAP_S: f64 = 10.0;

type Key = (Uuid, String, i32);

#[derive(Debug, Clone)]
enum State {
    Loading,
    Loaded {
        signs: Arc<BinaryIndex>,
        asked: Instant,
        /// Being reloaded; the current ones serve until then.
        renewing: bool,
    },
    /// There are too many of them.
    TooLarge,
}

static KNOWN: LazyLock<Mutex<HashMap<Key, State>>> = LazyLock::new(Mutex::default);

fn known() -> MutexGuard<'static, HashMap<Key, State>> {
    // No await while it is held.
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Binary vectors, one after the other.
#[derive(Debug)]
struct BinaryIndex {
    ids: Vec<Uuid>,
    /// The index of each object's type in `type_names`. An object's type never changes.
    types: Vec<u16>,
    type_names: Vec<String>,
    bits: Vec<u64>,
    /// The number of words per vector.
    words: usize,
    /// By the database's clock, before the first was read.
    read_at: DateTime<Utc>,
    read: Instant,
}

impl BinaryIndex {
    fn new(dimensions: i32, read_at: DateTime<Utc>) -> Self {
        Self {
            ids: Vec::new(),
            types: Vec::new(),
            type_names: Vec::new(),
            bits: Vec::new(),
            words: (dimensions as usize).div_ceil(64),
            read_at,
            read: Instant::now(),
        }
    }

    fn push(&mut self, row: &Row) {
        let named = self.type_names.iter().position(|name| *name == row.object_type);
        let place = named.unwrap_or_else(|| {
            self.type_names.push(row.object_type.clone());
            self.type_names.len() - 1
        });
        // Further types share the last index: their objects are filtered out later, by the exact comparison.
        self.types.push(place.min(MAX_TYPES) as u16);
        self.type_names.truncate(MAX_TYPES + 1);
        self.ids.push(row.id);
        self.bits.extend(packed(&row.signs));
        self.bits.resize(self.ids.len() * self.words, 0);
    }

    fn bytes(&self) -> usize {
        self.ids.len() * (size_of::<Uuid>() + size_of::<u16>() + 8 * self.words)
    }

    /// Returns which type indexes pass; None: all.
    fn passing(&self, types: &[String]) -> Option<Vec<bool>> {
        if types.is_empty() {
            return None;
        }
        let passes = |(place, name)| place == MAX_TYPES || types.contains(name);
        Some(self.type_names.iter().enumerate().map(passes).collect())
    }

    /// Returns the vectors of these types (none: all) with the smallest Hamming distance, nearest first.
    fn nearest(&self, query: &[u64], types: &[String], count: usize) -> Vec<(u16, Uuid)> {
        let passing = self.passing(types);
        let differ = |bits: &[u64]| -> u32 { bits.iter().zip(query).map(|(a, b)| (a ^ b).count_ones()).sum() };
        let passes = |at: usize| {
            let place = usize::from(self.types[at]);
            passing.as_ref().is_none_or(|passing| passing[place])
        };
        // Two bytes per vector: allocating more for each search would cost more than counting.
        let mut differences = vec![u16::MAX; self.ids.len()];
        let mut histogram = vec![0; 64 * self.words + 1];
        for (at, bits) in self.bits.chunks_exact(self.words).enumerate() {
            if passes(at) {
                differences[at] = differ(bits) as u16;
                histogram[usize::from(differences[at])] += 1;
            }
        }
        // The distance up to which there are enough vectors.
        let mut enough = 0;
        let bound = histogram.iter().position(|vectors| {
            enough += vectors;
            enough >= count
        });
        let bound = bound.unwrap_or(histogram.len()) as u16;
        let mut near: Vec<(u16, Uuid)> = differences
            .into_iter()
            .zip(&self.ids)
            .filter(|(difference, _)| *difference <= bound)
            .map(|(difference, id)| (difference, *id))
            .collect();
        near.sort_unstable();
        near.truncate(count);
        near
    }
}

/// A binary vector as sent by the database.
#[derive(Debug, sqlx::FromRow)]
struct Row {
    id: Uuid,
    object_type: String,
    signs: Vec<u8>,
}

/// Packs bits as sent by the database, most significant first.
fn packed(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks(8).map(|some| {
        let mut word = [0; 8];
        word[..some.len()].copy_from_slice(some);
        u64::from_be_bytes(word)
    })
}

/// The same from a vector's numbers.
fn sign_bits(numbers: &[f32]) -> Vec<u64> {
    let word = |some: &[f32]| {
        let bits = some.iter().enumerate().filter(|(_, x)| **x > 0.0);
        bits.fold(0, |word, (at, _)| word | 1 << (63 - at))
    };
    numbers.chunks(64).map(word).collect()
}

fn key(workspace_id: Uuid, query: &QueryVector) -> Key {
    (workspace_id, query.model.name.clone(), query.model.dimensions)
}

/// Returns the objects of these types (none: all) with the smallest Hamming distance, nearest first. None: the
/// workspace's vectors are not loaded.
pub async fn nearest(
    pool: &PgPool,
    workspace_id: Uuid,
    query: &QueryVector,
    types: &[String],
    count: i64,
) -> Result<Option<Vec<Uuid>>, Error> {
    let key = key(workspace_id, query);
    let signs = match known().get_mut(&key) {
        Some(State::Loaded { signs, asked, .. }) => {
            *asked = Instant::now();
            signs.clone()
        }
        Some(State::Loading | State::TooLarge) | None => return Ok(None),
    };
    let mut later = BinaryIndex::new(query.model.dimensions, signs.read_at);
    let rows: Vec<Row> = sqlx::query_as(
        "select e.canonical_id as id, o.type as object_type, substring(varbit_send(e.signs) from 5) as signs
         from kb.graph_embeddings e
         join kb.graph_objects o on o.canonical_id = e.canonical_id and o.superseded_at is null
         where e.project_id = $1 and e.model = $2 and e.dimensions = $3 and e.embedded_at > $4
         limit $5",
    )
    .bind(workspace_id)
    .bind(&key.1)
    .bind(key.2)
    .bind(signs.read_at)
    .bind(MAX_LATER as i64)
    .fetch_all(pool)
    .await
    .map_err(Error::database("read signs of new vectors"))?;
    for row in &rows {
        later.push(row);
    }
    if later.ids.len() >= MAX_LATER || signs.read.elapsed() > MAX_AGE {
        load_in_background(pool, workspace_id, query);
    }
    let query = sign_bits(&query.numbers);
    let (types, count) = (types.to_vec(), count as usize);
    let looked = tokio::task::spawn_blocking(move || {
        let mut near = signs.nearest(&query, &types, count);
        near.extend(later.nearest(&query, &types, count));
        near.sort_unstable();
        let mut seen = HashSet::new();
        near.retain(|(_, id)| seen.insert(*id));
        near.truncate(count);
        near.into_iter().map(|(_, id)| id).collect()
    });
    Ok(looked.await.ok())
}

/// Loads a workspace's vectors in the background, unless a load is running or was refused.
pub fn load_in_background(pool: &PgPool, workspace_id: Uuid, query: &QueryVector) {
    let (pool, query) = (pool.clone(), query.clone());
    tokio::spawn(async move { load(&pool, workspace_id, &query).await });
}

/// The same, waiting for it.
pub async fn load(pool: &PgPool, workspace_id: Uuid, query: &QueryVector) {
    let key = key(workspace_id, query);
    match known().entry(key.clone()) {
        Entry::Vacant(vacant) => {
            vacant.insert(State::Loading);
        }
        Entry::Occupied(mut occupied) => match occupied.get_mut() {
            State::Loaded { renewing, .. } if !*renewing => *renewing = true,
            State::Loaded { .. } | State::Loading | State::TooLarge => return,
        },
    }
    let place = match read(pool, &key).await {
        Ok(Some(signs)) => State::Loaded {
            signs: Arc::new(signs),
            asked: Instant::now(),
            renewing: false,
        },
        Ok(None) => State::TooLarge,
        Err(error) => {
            warn!(workspace = %key.0, %error, "reading the binary-quantized vectors failed; searches use the database");
            known().remove(&key);
            return;
        }
    };
    keep(key, place);
}

fn keep(key: Key, place: State) {
    let mut known = known();
    known.insert(key, place);
    let bytes = |place: &State| match place {
        State::Loaded { signs, .. } => signs.bytes(),
        State::Loading | State::TooLarge => 0,
    };
    while known.values().map(bytes).sum::<usize>() > MAX_BYTES {
        let longest_ago = known.iter().filter_map(|(key, place)| match place {
            State::Loaded { asked, .. } => Some((*asked, key.clone())),
            State::Loading | State::TooLarge => None,
        });
        let Some((_, oldest)) = longest_ago.min() else { return };
        known.remove(&oldest);
    }
}

/// Reads all binary vectors of a workspace; None: too many.
async fn read(pool: &PgPool, key: &Key) -> Result<Option<BinaryIndex>, sqlx::Error> {
    let began = sqlx::query_scalar("select now() - make_interval(secs => $1)")
        .bind(OVERLAP_S)
        .fetch_one(pool)
        .await?;
    let mut signs = BinaryIndex::new(key.2, began);
    let mut after = Uuid::nil();
    loop {
        let rows: Vec<Row> = sqlx::query_as(
            "select e.id, o.type as object_type, substring(varbit_send(e.signs) from 5) as signs
             from (select canonical_id as id, signs
                   from kb.graph_embeddings
                   where project_id = $1 and model = $2 and dimensions = $3 and canonical_id > $4
                   order by canonical_id
                   limit $5) e
             join kb.graph_objects o on o.canonical_id = e.id and o.superseded_at is null
             order by e.id",
        )
        .bind(key.0)
        .bind(&key.1)
        .bind(key.2)
        .bind(after)
        .bind(PAGE)
        .fetch_all(pool)
        .await?;
        for row in &rows {
            signs.push(row);
        }
        if signs.bytes() > MAX_BYTES {
            return Ok(None);
        }
        // A page may be shorter, since vectors of deleted objects are skipped.
        match rows.last() {
            Some(last) => after = last.id,
            None => return Ok(Some(signs)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_the_database_and_of_numbers_are_the_same() {
        let mut numbers = vec![-1.0; 70];
        numbers[0] = 1.0;
        numbers[63] = 1.0;
        numbers[64] = 1.0;
        let sent: Vec<u64> = packed(&[0x80, 0, 0, 0, 0, 0, 0, 1, 0x80]).collect();
        assert_eq!(sign_bits(&numbers), sent);
    }

    #[test]
    fn the_nearest_are_those_that_differ_in_the_fewest_bits() {
        let mut signs = BinaryIndex::new(8, DateTime::UNIX_EPOCH);
        let ids: Vec<Uuid> = (0..4).map(Uuid::from_u128).collect();
        for (id, bits) in ids.iter().zip([0b0000_1111, 0b1111_1111, 0b0000_0111, 0]) {
            signs.push(&Row {
                id: *id,
                object_type: if bits == 0b0000_1111 { "Note" } else { "Task" }.to_owned(),
                signs: vec![bits],
            });
        }
        let query: Vec<u64> = packed(&[0b0000_1111]).collect();
        assert_eq!(signs.nearest(&query, &[], 2), [(0, ids[0]), (1, ids[2])]);
        assert_eq!(signs.nearest(&query, &[], 9).len(), 4);
        let tasks = ["Task".to_owned(), "Person".to_owned()];
        assert_eq!(signs.nearest(&query, &tasks, 2), [(1, ids[2]), (4, ids[1])]);
    }
}
