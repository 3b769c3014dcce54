//! The definitions of the tools: their descriptions, parameters, and kinds of sources.

use rejoin_integrations::data_sources::Kind;
use rejoin_tools::arguments::Kind::{Objects, OptionalInteger, Text};
use rejoin_tools::arguments::Parameter;

const DATABASE_ID: Parameter = Parameter::new(
    "databaseId",
    Text,
    "The database: a data source's name, or source/database, as returned by list_databases.",
);
const QUERY: Parameter = Parameter::new(
    "query",
    Text,
    "One read-only statement: SQL in the source's dialect, or, for MongoDB, db.collection.find({…}), .aggregate([…]), \
    .countDocuments({…}) or .distinct(\"field\").",
);
/// A query of `join_query_results`.
const JOINED: &[Parameter] = &[
    Parameter::new(
        "name",
        Text,
        "Table name of this query's result in `sql`: letters, digits and _, starting with a letter.",
    ),
    DATABASE_ID,
    QUERY,
];
const MAX_ROWS: Parameter = Parameter::new(
    "maxRows",
    OptionalInteger,
    "Maximum number of rows to return; default 100.",
);

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    ListSources,
    ListDatabases,
    ListTables,
    Inspect,
    Execute,
    Explain,
    Join,
    Modify,
}

pub(super) struct Definition {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) verb: Verb,
    /// The kinds of sources it supports; empty: all.
    pub(super) kinds: &'static [Kind],
    pub(super) parameters: &'static [Parameter],
}

const SQL: &[Kind] = &[
    Kind::Postgresql,
    Kind::Mysql,
    Kind::Sqlite,
    Kind::Duckdb,
    Kind::Bigquery,
];
const DOCUMENTS: &[Kind] = &[Kind::Mongodb];
const WAREHOUSE: &[Kind] = &[Kind::Bigquery];

pub(super) const TOOLS: &[Definition] = &[
    Definition {
        name: "list_data_sources",
        description: "Lists the project's data sources (databases) with their kind and whether they are writable.",
        verb: Verb::ListSources,
        kinds: &[],
        parameters: &[],
    },
    Definition {
        name: "list_databases",
        description: "Lists the databases of all data sources, each with the databaseId that the other tools take.",
        verb: Verb::ListDatabases,
        kinds: &[],
        parameters: &[],
    },
    Definition {
        name: "list_tables",
        description: "Lists the tables and views of a database.",
        verb: Verb::ListTables,
        kinds: SQL,
        parameters: &[DATABASE_ID],
    },
    Definition {
        name: "list_collections",
        description: "Lists the collections of a MongoDB database.",
        verb: Verb::ListTables,
        kinds: DOCUMENTS,
        parameters: &[DATABASE_ID],
    },
    Definition {
        name: "inspect_table",
        description: "Returns the columns of a table with their types, keys and comments.",
        verb: Verb::Inspect,
        kinds: SQL,
        parameters: &[
            DATABASE_ID,
            Parameter::new("tableName", Text, "The table's name, as returned by list_tables."),
        ],
    },
    Definition {
        name: "inspect_collection",
        description: "Returns the fields of a collection, inferred from a sample of its documents, and up to 25 of \
            these documents.",
        verb: Verb::Inspect,
        kinds: DOCUMENTS,
        parameters: &[
            DATABASE_ID,
            Parameter::new(
                "collectionName",
                Text,
                "The collection's name, as returned by list_collections.",
            ),
        ],
    },
    Definition {
        name: "execute_query",
        description: "Runs a read-only query on a database and returns columns and rows. `truncated` means that there \
            are more rows.",
        verb: Verb::Execute,
        kinds: &[],
        parameters: &[DATABASE_ID, QUERY, MAX_ROWS],
    },
    Definition {
        name: "explain_query",
        description: "Returns a query's execution plan, or, for BigQuery, the bytes it would be billed for. Does not \
            run the query.",
        verb: Verb::Explain,
        kinds: &[],
        parameters: &[DATABASE_ID, QUERY],
    },
    Definition {
        name: "join_query_results",
        description: "Answers a question that spans several databases: runs one query per database in parallel and \
            then one SELECT over the results. Each result is a table with the query's name; `sql` is in SQLite's \
            dialect, whatever the databases are. In it, booleans are 1 and 0, times are text (compare them with \
            datetime()), and documents and lists are JSON (json_extract). Each result has at most about 1,000 rows: \
            filter and aggregate in the queries. `partial` means that a result, and therefore the join, is incomplete.",
        verb: Verb::Join,
        kinds: &[],
        parameters: &[
            Parameter::new("queries", Objects(JOINED), "2 to 5 queries."),
            Parameter::new("sql", Text, "One SQLite SELECT over the tables named in `queries`."),
            MAX_ROWS,
        ],
    },
    Definition {
        name: "modify_data",
        description: "Runs one statement that writes, on a writable data source. Ask the user for confirmation first.",
        verb: Verb::Modify,
        kinds: &[],
        parameters: &[
            DATABASE_ID,
            Parameter::new("statement", Text, "One statement, in the source's query language."),
        ],
    },
    Definition {
        name: "bq_list_datasets",
        description: "Lists the datasets of a BigQuery source.",
        verb: Verb::ListDatabases,
        kinds: WAREHOUSE,
        parameters: &[DATABASE_ID],
    },
    Definition {
        name: "bq_list_tables",
        description: "Lists the tables of a dataset.",
        verb: Verb::ListTables,
        kinds: WAREHOUSE,
        parameters: &[
            DATABASE_ID,
            Parameter::new("datasetId", Text, "The dataset, as returned by bq_list_datasets."),
        ],
    },
    Definition {
        name: "bq_inspect_table",
        description: "Returns the columns, size and partitioning of a table.",
        verb: Verb::Inspect,
        kinds: WAREHOUSE,
        parameters: &[
            DATABASE_ID,
            Parameter::new("datasetId", Text, "The dataset, as returned by bq_list_datasets."),
            Parameter::new("tableId", Text, "The table, as returned by bq_list_tables."),
        ],
    },
    Definition {
        name: "bq_execute_query",
        description: "Runs a read-only query in BigQuery's GoogleSQL and returns columns and rows. The bytes to be \
            billed are checked before it runs.",
        verb: Verb::Execute,
        kinds: WAREHOUSE,
        parameters: &[DATABASE_ID, QUERY, MAX_ROWS],
    },
];
