//! The local model's vectors, beside those of another implementation of the same model; needs the model's files: without them it
//! is skipped, and fails in CI.

use rejoin_embeddings::{Choice, Embedder, EmbeddingsArgs, Endpoints};

/// The folder into which `make setup-search` puts the files, from the workspace.
const CACHE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.cache/embeddings/all-minilm-l6-v2");

const TEXTS: [&str; 5] = [
    "burn DVDs",
    "tool to record optical discs",
    "The quick brown fox jumps over the lazy dog.",
    "Café naïve — résumé: “quoted” 漢字 libssl3 (>= 3.0.0)",
    "GNU C compiler",
];
/// The first four numbers of each, by ONNX Runtime from a file of the same model with weights of 8 bits: alike to a few thousandths.
const FIRST: [[f32; 4]; 5] = [
    [-0.016_788, -0.049_830, 0.010_388, -0.018_782],
    [-0.011_892, -0.058_261, -0.071_396, -0.080_232],
    [0.041_831, 0.058_666, 0.051_349, 0.075_391],
    [-0.069_697, -0.016_802, -0.068_018, -0.001_478],
    [-0.083_275, 0.061_825, -0.042_053, 0.029_812],
];

fn embedder(folder: &std::path::Path) -> Embedder {
    Embedder::new(
        &EmbeddingsArgs {
            embeddings: Choice::Local,
            embeddings_dir: Some(folder.into()),
            ..EmbeddingsArgs::off()
        },
        &Endpoints::default(),
    )
}

fn model() -> Option<Embedder> {
    let folder = std::env::var_os("REJOIN_EMBEDDINGS_DIR").unwrap_or_else(|| CACHE.into());
    let embedder = embedder(std::path::Path::new(&folder));
    if embedder.model().is_none() {
        assert!(
            !std::env::var("CI").is_ok_and(|value| value == "true"),
            "the local model's files are not here: scripts/setup-search.sh fetches them"
        );
        eprintln!("SKIPPED: the local model's files were not found (make setup-search downloads them)");
        return None;
    }
    Some(embedder)
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[tokio::test]
async fn its_vectors_are_those_of_the_model() {
    let Some(model) = model() else { return };
    let vectors = model.embed(&texts(&TEXTS)).await.unwrap();
    for ((text, vector), first) in TEXTS.iter().zip(&vectors).zip(FIRST) {
        assert_eq!(vector.len(), 384);
        assert!((cosine(vector, vector) - 1.0).abs() < 1e-4, "{text}");
        for (ours, theirs) in vector.iter().zip(first) {
            assert!(
                (ours - theirs).abs() < 0.006,
                "{text}: {:?} and {first:?}",
                &vector[..4]
            );
        }
    }
    assert!(cosine(&vectors[0], &vectors[1]) > cosine(&vectors[0], &vectors[4]) + 0.2);
}

#[tokio::test]
async fn a_vector_does_not_depend_on_what_is_embedded_with_it() {
    let Some(model) = model() else { return };
    let together = model.embed(&texts(&TEXTS)).await.unwrap();
    for (text, vector) in TEXTS.iter().zip(together) {
        let alone = model.embed(&texts(&[text])).await.unwrap().remove(0);
        assert!(cosine(&alone, &vector) > 0.9999, "{text}");
    }
}

#[tokio::test]
async fn empty_and_endless_texts_have_vectors() {
    let Some(model) = model() else { return };
    let endless = "libssl3 ".repeat(100_000);
    let vectors = model
        .embed(&[String::new(), endless, "\u{0}\u{fffd}".to_owned()])
        .await
        .unwrap();
    assert_eq!(vectors.len(), 3);
}

#[test]
fn a_folder_without_the_files_is_no_model() {
    let embedder = Embedder::new(
        &EmbeddingsArgs {
            embeddings: Choice::Local,
            embeddings_dir: Some(env!("CARGO_MANIFEST_DIR").into()),
            ..EmbeddingsArgs::off()
        },
        &Endpoints::default(),
    );
    assert_eq!(embedder.model(), None);
}

/// The folder of the model with its weights halved, as the container image has it.
fn halved() -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("rejoin-halved-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let from = std::env::var_os("REJOIN_EMBEDDINGS_DIR").map_or_else(|| CACHE.into(), std::path::PathBuf::from);
    let halving = std::process::Command::new("python3")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/halve-model.py"))
        .arg(from.join("model.safetensors"))
        .arg(folder.join("model.safetensors"))
        .status()
        .unwrap();
    assert!(halving.success());
    std::fs::copy(from.join("vocab.txt"), folder.join("vocab.txt")).unwrap();
    folder
}

#[tokio::test]
async fn with_weights_of_half_the_size_its_vectors_are_the_same() {
    let Some(model) = model() else { return };
    let folder = halved();
    let small = embedder(&folder);
    let (vectors, halves) = (
        model.embed(&texts(&TEXTS)).await.unwrap(),
        small.embed(&texts(&TEXTS)).await.unwrap(),
    );
    for ((text, vector), half) in TEXTS.iter().zip(&vectors).zip(&halves) {
        assert!(cosine(vector, half) > 0.999_99, "{text}: {}", cosine(vector, half));
    }
    let bytes = |path: std::path::PathBuf| std::fs::metadata(path).unwrap().len();
    assert!(bytes(folder.join("model.safetensors")) < 46_000_000);
    std::fs::remove_dir_all(folder).unwrap();
}
