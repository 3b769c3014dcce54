//! Each signal by itself, their order, and regressions.

use proptest::prelude::*;

use super::*;

const POSTGRES: Uuid = Uuid::from_u128(1);
const MONGO: Uuid = Uuid::from_u128(2);
const BIGQUERY: Uuid = Uuid::from_u128(3);
const GENERAL: Uuid = Uuid::from_u128(9);

fn of(databases: &[Database]) -> Databases {
    databases.iter().copied().collect()
}

fn specialist(id: Uuid, name: &'static str, databases: &[Database]) -> Specialist<'static> {
    Specialist {
        id,
        name,
        databases: of(databases),
        keywords: &[],
    }
}

fn agents() -> [Specialist<'static>; 3] {
    [
        specialist(POSTGRES, "postgres-analyst", &[Database::PostgreSql]),
        specialist(MONGO, "mongodb-analyst", &[Database::MongoDb]),
        specialist(BIGQUERY, "bigquery-analyst", &[Database::BigQuery]),
    ]
}

/// The document specialist and the warehouse specialist, without a third.
fn two() -> [Specialist<'static>; 2] {
    let [_, mongo, bigquery] = agents();
    [mongo, bigquery]
}

fn about(message: &str) -> Clues<'_> {
    Clues {
        message,
        ..Clues::default()
    }
}

fn chosen(clues: &Clues<'_>) -> (Option<Uuid>, Reason) {
    let choice = choose(&agents(), clues);
    (choice.agent, choice.reason)
}

fn console(database: Option<Database>, content: &str) -> Console<'_> {
    Console { database, content }
}

/// Requirements: D04, D09.
#[test]
fn triage_is_what_is_left_when_nothing_decides() {
    assert_eq!(chosen(&about("Which customers are late?")), (None, Reason::Triage));
    assert_eq!(chosen(&about("")), (None, Reason::Triage));
    assert_eq!(
        chosen(&about("Is it the same in Mongo and in Postgres?")),
        (None, Reason::Triage)
    );
    // Any signal suffices not to ask.
    let known = Clues {
        databases: of(&[Database::MongoDb]),
        ..about("Which customers are late?")
    };
    assert_eq!(chosen(&known), (Some(MONGO), Reason::OnlyDatabase));
    assert_eq!(choose(&[], &known).agent, None);
}

/// Requirements: D05.
#[test]
fn the_pinned_agent_wins_over_everything() {
    let consoles = [console(Some(Database::MongoDb), "db.orders.find({})")];
    let clues = Clues {
        pinned: Some(BIGQUERY),
        consoles: &consoles,
        databases: of(&[Database::MongoDb]),
        preferred: Some(MONGO),
        history: &[(MONGO, 90)],
        ..about("this is about mongo")
    };
    assert_eq!(chosen(&clues), (Some(BIGQUERY), Reason::Pinned));
    // Even an agent without a specialty.
    assert_eq!(
        chosen(&Clues {
            pinned: Some(GENERAL),
            ..clues
        }),
        (Some(GENERAL), Reason::Pinned)
    );
}

/// Requirements: D06.
#[test]
fn the_first_console_with_a_database_decides_next() {
    let consoles = [
        console(None, "db.orders.find({})"),
        console(Some(Database::PostgreSql), ""),
        console(Some(Database::BigQuery), ""),
    ];
    let clues = Clues {
        consoles: &consoles,
        ..about("something with mongo collections")
    };
    assert_eq!(chosen(&clues), (Some(POSTGRES), Reason::ConsoleDatabase));
    // A kind without specialists is no signal.
    let consoles = [
        console(Some(Database::MsSql), ""),
        console(Some(Database::BigQuery), ""),
    ];
    assert_eq!(
        chosen(&Clues {
            consoles: &consoles,
            ..clues
        }),
        (Some(BIGQUERY), Reason::ConsoleDatabase)
    );
}

/// Requirements: D07.
#[test]
fn keywords_of_the_message_decide_as_whole_words_in_any_case() {
    for (message, agent) in [
        ("How many documents are in this MONGODB?", Some(MONGO)),
        ("a Mongo query please", Some(MONGO)),
        ("sum up the orders collection", Some(MONGO)),
        ("aggregate the orders collection", Some(MONGO)),
        ("what's in this bson", Some(MONGO)),
        ("use BigQuery", Some(BIGQUERY)),
        ("bq, please", Some(BIGQUERY)),
        ("write me some SQL", Some(BIGQUERY)),
        // All of them English phrases.
        ("from where do we get most orders", None),
        ("select the best from the list, where there is one", None),
        ("mongols, bqs and sequels", None),
    ] {
        let choice = choose(&two(), &about(message));
        assert_eq!(choice.agent, agent, "{message}: {}", choice.because);
    }
}

#[test]
fn group_and_project_are_not_operators_of_queries_in_prose() {
    for message in [
        "Group the customers by project",
        "Which project has the largest group?",
        "grouping of projects, projections and groups",
        "our Project Group GmbH",
    ] {
        assert_eq!(chosen(&about(message)), (None, Reason::Triage), "{message}");
    }
    assert_eq!(chosen(&about("what does $group do before $project")).0, Some(MONGO));
}

/// Requirements: D08, D50.
#[test]
fn the_projects_preference_decides_where_nothing_else_does() {
    let clues = Clues {
        databases: of(&[Database::PostgreSql, Database::MongoDb]),
        preferred: Some(MONGO),
        history: &[(POSTGRES, 50)],
        ..about("Which customers are late?")
    };
    assert_eq!(chosen(&clues), (Some(MONGO), Reason::Preference));
    let spoken = Clues {
        message: "Which Postgres tables are large?",
        ..clues
    };
    assert_eq!(chosen(&spoken), (Some(POSTGRES), Reason::Message));
    // It decides if the message is ambiguous, but not against the message.
    let both = Clues {
        databases: of(&[Database::PostgreSql, Database::BigQuery]),
        message: "write some SQL",
        ..clues
    };
    assert_eq!(
        chosen(&Clues {
            preferred: Some(BIGQUERY),
            ..both
        }),
        (Some(BIGQUERY), Reason::Preference)
    );
    assert_eq!(
        chosen(&Clues {
            preferred: Some(MONGO),
            ..both
        }),
        (Some(POSTGRES), Reason::History)
    );
    // An agent without a database specialty may be preferred, too.
    assert_eq!(
        chosen(&Clues {
            preferred: Some(GENERAL),
            ..clues
        }),
        (Some(GENERAL), Reason::Preference)
    );
}

/// Requirements: D10.
#[test]
fn what_a_console_holds_decides_where_it_has_no_connection() {
    for (content, agent) in [
        ("db.orders.aggregate([{ $match: { paid: true } }])", MONGO),
        ("SELECT COUNT(*) FROM `shop.core.orders`", BIGQUERY),
        ("select total::numeric from orders", POSTGRES),
    ] {
        let consoles = [console(None, ""), console(None, content)];
        let clues = Clues {
            consoles: &consoles,
            ..about("that is not right in Redis")
        };
        assert_eq!(chosen(&clues), (Some(agent), Reason::ConsoleContent), "{content}");
    }
    // Dialect-neutral SQL counts together with the project's databases and the message.
    let consoles = [console(None, "SELECT name FROM users")];
    let clues = Clues {
        consoles: &consoles,
        ..about("only those of May")
    };
    assert_eq!(chosen(&clues), (None, Reason::Triage));
    let of_two = Clues {
        databases: of(&[Database::MongoDb, Database::BigQuery]),
        ..clues
    };
    assert_eq!(chosen(&of_two), (Some(BIGQUERY), Reason::ConsoleContent));
    let spoken = Clues {
        message: "in the marketing dataset",
        ..clues
    };
    assert_eq!(chosen(&spoken), (Some(BIGQUERY), Reason::Message));
}

/// Requirements: D11.
#[test]
fn what_the_project_has_counts() {
    let sql = about("Write an SQL query for the newest orders");
    assert_eq!(chosen(&sql), (None, Reason::Triage));
    let with = |databases: &[Database], message| {
        chosen(&Clues {
            databases: of(databases),
            ..about(message)
        })
    };
    use Database::{BigQuery, ClickHouse, MongoDb, PostgreSql};
    assert_eq!(
        with(&[PostgreSql, MongoDb], sql.message),
        (Some(POSTGRES), Reason::Message)
    );
    assert_eq!(with(&[PostgreSql, BigQuery], sql.message), (None, Reason::Triage));
    assert_eq!(with(&[BigQuery], "hello"), (Some(BIGQUERY), Reason::OnlyDatabase));
    // A database without specialists still counts as present.
    assert_eq!(with(&[BigQuery, ClickHouse], "hello"), (None, Reason::Triage));
    // The remaining one, when the message excludes the other.
    assert_eq!(
        with(&[PostgreSql, MongoDb], "not the mongo one"),
        (Some(POSTGRES), Reason::OnlyDatabase)
    );
    // An explicit name outweighs the project's known databases.
    assert_eq!(
        with(&[PostgreSql], "our MongoDB, please"),
        (Some(MONGO), Reason::Message)
    );
}

/// Requirements: D12.
#[test]
fn each_choice_says_why_and_how_sure_it_is() {
    let consoles = [console(Some(Database::MongoDb), "")];
    let clues = Clues {
        consoles: &consoles,
        ..Clues::default()
    };
    let choice = choose(&agents(), &clues);
    assert_eq!(choice.confidence(), Confidence::High);
    assert_eq!(
        choice.because,
        "The attached console uses mongodb, the specialty of mongodb-analyst."
    );
    let choice = choose(&agents(), &about("count by $match"));
    assert_eq!(choice.confidence(), Confidence::Medium);
    assert_eq!(
        choice.because,
        "The message matches the specialty of mongodb-analyst (“$match”)."
    );
    let clearer = choose(&agents(), &about("count by $match in this MongoDB collection"));
    assert!(0.0 < choice.score && choice.score < clearer.score && clearer.score < 1.0);
    let choice = choose(&agents(), &about("hello"));
    assert_eq!((choice.confidence(), choice.score), (Confidence::Low, 0.0));
    for reason in Reason::ALL {
        assert_eq!(serde_json::to_value(reason).unwrap(), reason.name());
    }
}

/// Requirements: D16.
#[test]
fn collections_are_documents_and_tables_are_the_warehouses() {
    for (message, agent) in [
        ("Look into the orders collection", MONGO),
        ("Aggregate all documents by status", MONGO),
        ("SELECT count(*) FROM orders", BIGQUERY),
        ("I need the SQL for that", BIGQUERY),
        ("What is in the table orders?", BIGQUERY),
    ] {
        assert_eq!(choose(&two(), &about(message)).agent, Some(agent), "{message}");
    }
}

#[test]
fn the_users_habit_is_the_last_clue() {
    let databases = of(&[Database::PostgreSql, Database::MongoDb]);
    let with = |history| {
        chosen(&Clues {
            databases,
            history,
            ..about("Which customers are late?")
        })
    };
    assert_eq!(with(&[(MONGO, 7), (POSTGRES, 2)]), (Some(MONGO), Reason::History));
    assert_eq!(with(&[(MONGO, 2)]).1, Reason::Triage);
    assert_eq!(with(&[(MONGO, 5), (POSTGRES, 4)]).1, Reason::Triage);
    assert_eq!(with(&[(GENERAL, 50)]).1, Reason::Triage);
}

#[test]
fn agents_may_share_kinds_and_have_their_own_words() {
    let words = ["past due".to_owned(), "rechnung".to_owned()];
    let sales = specialist(Uuid::from_u128(4), "sales", &[Database::PostgreSql]);
    let billing = Specialist {
        id: Uuid::from_u128(5),
        name: "billing",
        keywords: &words,
        ..sales
    };
    let any_sql = specialist(Uuid::from_u128(6), "any-sql", &[Database::PostgreSql, Database::MySql]);
    let agents = [sales, billing, any_sql];
    let chosen = |clues: &Clues<'_>| choose(&agents, clues).agent;
    assert_eq!(chosen(&about("who is past-due?")), Some(billing.id));
    assert_eq!(chosen(&about("our Postgres: who is past due?")), Some(billing.id));
    // Otherwise: the preferred one, the usual one, the one with the fewest kinds, the first.
    assert_eq!(chosen(&about("our Postgres")), Some(sales.id));
    assert_eq!(
        chosen(&Clues {
            history: &[(billing.id, 1)],
            ..about("our Postgres")
        }),
        Some(billing.id)
    );
    assert_eq!(
        chosen(&Clues {
            preferred: Some(billing.id),
            ..about("our Postgres")
        }),
        Some(billing.id)
    );
    assert_eq!(chosen(&about("our MySQL")), Some(any_sql.id));
    // An agent may have keywords only.
    let words = ["rota".to_owned()];
    let people = Specialist {
        id: GENERAL,
        name: "people",
        databases: Databases::NONE,
        keywords: &words,
    };
    assert_eq!(choose(&[sales, people], &about("the rota of May")).agent, Some(GENERAL));
    assert_eq!(choose(&[sales, people], &about("the rotation of May")).agent, None);
}

#[test]
fn of_long_texts_the_beginning_and_the_end_are_read() {
    let filler = "é word ".repeat(2_000);
    let long = |beginning: &str, middle: &str, end: &str| format!("{beginning} {filler} {middle} {filler} {end}");
    assert_eq!(chosen(&about(&long("In mongo:", "", ""))).0, Some(MONGO));
    assert_eq!(
        chosen(&about(&long("", "", "Why does BigQuery say so?"))).0,
        Some(BIGQUERY)
    );
    assert_eq!(chosen(&about(&long("", "mongo", ""))).0, None);
}

/// Texts of relevant and arbitrary fragments.
fn texts() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "mongo",
        "postgres",
        "bigquery",
        "sql",
        "not",
        "collection",
        "table",
        "SELECT a FROM b",
        "$match",
        "x::text",
        "`a.b.c`",
        "from",
        "where",
        "group",
        "the",
        "Wo?",
        "日本",
        "dataset",
        "instead of",
        "db.x.find({})",
        "redis",
        ".",
    ]);
    let piece = prop_oneof![4 => pieces.prop_map(str::to_owned), 1 => any::<String>()];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.join(" "))
}

fn kinds() -> impl Strategy<Value = Option<Database>> {
    prop::option::of(prop::sample::select(Database::ALL.to_vec()))
}

fn someone() -> impl Strategy<Value = Option<Uuid>> {
    prop::option::of(prop::sample::select(vec![POSTGRES, MONGO, BIGQUERY, GENERAL]))
}

proptest! {
    /// Requirements: D05.
    #[test]
    fn a_pinned_agent_always_wins(message in texts(), database in kinds(), content in texts(), preferred in someone()) {
        let consoles = [console(database, &content)];
        let clues = Clues { pinned: Some(GENERAL), consoles: &consoles, preferred, ..about(&message) };
        prop_assert_eq!(chosen(&clues), (Some(GENERAL), Reason::Pinned));
    }

    /// A signal's decision does not depend on later signals: without those, the choice is the same.
    #[test]
    fn the_order_of_clues_is_kept(
        message in texts(),
        attached in prop::collection::vec((kinds(), texts()), 0..3),
        databases in prop::collection::vec(prop::sample::select(Database::ALL.to_vec()), 0..3),
        preferred in someone(),
        history in prop::collection::vec((prop::sample::select(vec![POSTGRES, MONGO, GENERAL]), 0_u32..9), 0..3),
    ) {
        let consoles: Vec<_> = attached.iter().map(|(database, content)| console(*database, content)).collect();
        let nothing = Clues::default();
        let clues = Clues { consoles: &consoles, databases: of(&databases), preferred, history: &history, ..about(&message) };
        let choice = choose(&agents(), &clues);
        prop_assert!((0.0..=1.0).contains(&choice.score) && !choice.because.is_empty());
        let earlier = match choice.reason {
            Reason::Pinned => nothing,
            Reason::ConsoleDatabase => Clues { consoles: &consoles, ..nothing },
            Reason::ConsoleContent => Clues { consoles: &consoles, databases: clues.databases, ..nothing },
            Reason::Message | Reason::OnlyDatabase => Clues { preferred: None, history: &[], ..clues },
            Reason::Preference => Clues { history: &[], ..clues },
            Reason::History | Reason::Triage => clues,
        };
        prop_assert_eq!(choose(&agents(), &earlier), choice);
        // A console's database takes precedence over all of these.
        let mut more = consoles.clone();
        more.insert(0, console(Some(Database::BigQuery), "db.x.find({})"));
        let first = Clues { consoles: &more, ..clues };
        prop_assert_eq!(chosen(&first), (Some(BIGQUERY), Reason::ConsoleDatabase));
    }
}
