//! Secrets and signatures of Standard Webhooks: a secret is `whsec_` and 24 to 64 random bytes in base64; a signature is `v1,` and the
//! HMAC-SHA256 of `id.timestamp.payload` in base64. Pure, but for the random bytes.

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rejoin_secrets::{Plaintext, SecretError};
use zeroize::Zeroizing;

/// The prefix of a secret.
const PREFIX: &str = "whsec_";
/// Number of random bytes of a secret.
const SECRET_BYTES: usize = 32;

/// Makes a secret.
///
/// # Errors
/// The system provides no random numbers.
pub fn new_secret() -> Result<Plaintext, SecretError> {
    let mut bytes = Zeroizing::new([0_u8; SECRET_BYTES]);
    rand::fill(&mut *bytes).map_err(|_| SecretError::Sealing)?;
    Ok(Plaintext::new(
        format!("{PREFIX}{}", STANDARD.encode(*bytes)).into_bytes(),
    ))
}

/// Returns the value of `webhook-signature`: one signature by each secret, separated by spaces. None: a secret is malformed.
pub fn signatures(secrets: &[Plaintext], id: &str, timestamp: i64, payload: &str) -> Option<String> {
    let content = format!("{id}.{timestamp}.{payload}");
    let signatures: Option<Vec<String>> = secrets
        .iter()
        .map(|secret| {
            let encoded = secret.expose_text()?.strip_prefix(PREFIX)?;
            let bytes = Zeroizing::new(STANDARD.decode(encoded).ok()?);
            let tag = sign(&Key::new(HMAC_SHA256, &bytes), content.as_bytes());
            Some(format!("v1,{}", STANDARD.encode(tag.as_ref())))
        })
        .collect();
    Some(signatures?.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's libraries.
    #[test]
    fn the_known_example_has_its_known_signature() {
        let secret = || Plaintext::new(b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_vec());
        let (id, payload) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", r#"{"test": 2432232314}"#);
        let one = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(
            signatures(&[secret()], id, 1_614_265_330, payload).as_deref(),
            Some(one)
        );
        let both = signatures(&[secret(), secret()], id, 1_614_265_330, payload);
        assert_eq!(both, Some(format!("{one} {one}")));
    }

    #[test]
    fn secrets_differ_and_sign() {
        let secrets = [new_secret().expect("random bytes"), new_secret().expect("random bytes")];
        assert_ne!(secrets[0].expose(), secrets[1].expose());
        let signed = signatures(&secrets, "a", 1, "{}").expect("well-formed secrets");
        assert_eq!(signed.split(' ').count(), 2);
        assert_eq!(signatures(&[Plaintext::new(b"hunter2".to_vec())], "a", 1, "{}"), None);
    }
}
