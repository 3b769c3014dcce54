//! The evidence for each kind of database; each signal counts once.

use super::databases::Databases;

/// Maximum number of signals per choice; a text with more is clear by then.
const MAX_SIGNS: usize = 64;

/// A word, phrase or query syntax that indicates some kinds of database or, with a negative weight, excludes them.
#[derive(Debug, Clone, Copy)]
pub struct Sign {
    pub term: &'static str,
    pub databases: Databases,
    pub weight: f32,
}

#[derive(Debug, Clone, Default)]
pub struct Evidence {
    signs: Vec<Sign>,
}

impl Evidence {
    /// A repeated term adds nothing: a long text is no stronger than a short one that says the same.
    pub fn add(&mut self, sign: Sign) {
        let known = self
            .signs
            .iter()
            .any(|other| other.term == sign.term && other.weight == sign.weight);
        if !known && self.signs.len() < MAX_SIGNS {
            self.signs.push(sign);
        }
    }

    /// Returns the weight of all signals for any of these kinds.
    pub fn about(&self, databases: Databases) -> f32 {
        self.signs
            .iter()
            .filter(|sign| sign.databases.meets(databases))
            .map(|sign| sign.weight)
            .sum()
    }

    /// Returns the weight of all signals for these kinds only.
    pub fn only_about(&self, databases: Databases) -> f32 {
        self.signs
            .iter()
            .filter(|sign| sign.databases.without(databases).is_empty())
            .map(|sign| sign.weight)
            .sum()
    }

    /// Returns the strongest signal for these kinds.
    pub fn loudest(&self, databases: Databases) -> Option<&'static str> {
        self.signs
            .iter()
            .filter(|sign| sign.databases.meets(databases) && sign.weight > 0.0)
            .max_by(|one, other| one.weight.total_cmp(&other.weight))
            .map(|sign| sign.term)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::databases::Database;

    #[test]
    fn each_sign_counts_once_and_for_all_its_kinds() {
        let (mongo, mysql) = (Databases::just(Database::MongoDb), Databases::just(Database::MySql));
        let mut evidence = Evidence::default();
        let sign = |term, databases, weight| Sign {
            term,
            databases,
            weight,
        };
        evidence.add(sign("table", mysql, 1.0));
        evidence.add(sign("table", mysql, 1.0));
        evidence.add(sign("upsert", mysql.and(mongo), 0.5));
        assert_eq!(evidence.about(mysql), 1.5);
        assert_eq!(evidence.about(mongo), 0.5);
        assert_eq!((evidence.only_about(mysql), evidence.only_about(mongo)), (1.0, 0.0));
        assert_eq!(evidence.loudest(mysql), Some("table"));
    }
}
