//! Allow-lists of functions for read-only sources: functions that compute from their arguments, and never change data,
//! sleep, lock, read files or reach other machines. Called by the guards.
//!
//! Invariant: these are allow-lists. A function is added after its documentation was read.

use std::collections::HashSet;
use std::sync::LazyLock;

/// In all dialects.
const COMMON: &str = "
    abs acos asin atan atan2 avg ceil ceiling char_length character_length coalesce concat concat_ws cos cot count cume_dist
    current_date current_time current_timestamp degrees dense_rank exp first_value floor greatest ifnull lag last_value lead
    least left length ln log lower lpad ltrim max min mod nth_value ntile nullif octet_length percent_rank pi pow power radians
    rank replace reverse right round row_number rpad rtrim sign sin sqrt substr substring sum tan trim upper";

/// PostgreSQL, and what PostGIS, pg_trgm and unaccent add.
#[cfg(feature = "postgresql")]
const POSTGRESQL: &str = "
    abbrev acosd acosh age any_value array_agg array_append array_cat array_dims array_fill array_length array_lower
    array_ndims array_position array_positions array_prepend array_remove array_replace array_sample array_shuffle
    array_to_json array_to_string array_to_tsvector array_upper ascii asinh atanh bit_and bit_count bit_length bit_or bit_xor
    bool_and bool_or box broadcast btrim cardinality cbrt center chr circle clock_timestamp col_description corr cosd cosh
    covar_pop covar_samp current_catalog current_database current_role current_schema current_schemas current_user date
    date_add date_bin date_part date_subtract date_trunc daterange decode diameter div encode enum_first enum_last enum_range
    erf erfc every extract factorial family format format_type gcd gen_random_uuid generate_series generate_subscripts get_bit
    get_byte has_column_privilege has_database_privilege has_schema_privilege has_table_privilege height host hostmask
    inet_merge inet_same_family initcap int4range int8range isclosed isempty isfinite isopen json_agg json_array_elements
    json_array_elements_text json_array_length json_build_array json_build_object json_each json_each_text json_extract_path
    json_extract_path_text json_object json_object_agg json_object_keys json_populate_record json_populate_recordset
    json_scalar json_strip_nulls json_to_record json_to_recordset json_typeof jsonb_agg jsonb_array_elements
    jsonb_array_elements_text jsonb_array_length jsonb_build_array jsonb_build_object jsonb_each jsonb_each_text
    jsonb_extract_path jsonb_extract_path_text jsonb_insert jsonb_object jsonb_object_agg jsonb_object_keys jsonb_path_exists
    jsonb_path_match jsonb_path_query jsonb_path_query_array jsonb_path_query_first jsonb_populate_record
    jsonb_populate_recordset jsonb_pretty jsonb_set jsonb_set_lax jsonb_strip_nulls jsonb_to_record jsonb_to_recordset
    jsonb_typeof justify_days justify_hours justify_interval lcm like_escape localtime localtimestamp log10 lower_inc lower_inf
    lseg make_date make_interval make_time make_timestamp make_timestamptz masklen md5 min_scale mode multirange netmask
    network normalize notlike now num_nonnulls num_nulls numnode numrange obj_description overlaps overlay parse_ident path
    pclose percentile_cont percentile_disc pg_column_size pg_get_constraintdef pg_get_expr pg_get_functiondef pg_get_indexdef
    pg_get_keywords pg_get_partkeydef pg_get_viewdef pg_indexes_size pg_relation_size pg_size_bytes pg_size_pretty
    pg_table_is_visible pg_table_size pg_total_relation_size pg_typeof phraseto_tsquery plainto_tsquery point polygon popen
    position quote_ident quote_literal quote_nullable radius random random_normal range_agg range_intersect_agg range_merge
    regexp_count regexp_instr regexp_like regexp_match regexp_matches regexp_replace regexp_split_to_array
    regexp_split_to_table regexp_substr regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy
    regr_syy repeat row_to_json scale session_user set_masklen setweight sha224 sha256 sha384 sha512 shobj_description
    similar_escape similar_to_escape similarity sind sinh slope split_part st_area st_asgeojson st_astext st_buffer st_centroid
    st_contains st_distance st_dwithin st_geomfromtext st_intersects st_length st_makepoint st_point st_setsrid st_transform
    st_within st_x st_y starts_with statement_timestamp stddev stddev_pop stddev_samp string_agg string_to_array
    string_to_table strip strpos tand tanh text timeofday timezone to_ascii to_bin to_char to_date to_hex to_json to_jsonb
    to_number to_oct to_regclass to_regtype to_timestamp to_tsquery to_tsvector transaction_timestamp translate trim_array
    trim_scale trunc ts_filter ts_headline ts_rank ts_rank_cd tsquery_phrase tsrange tstzrange tsvector_to_array unaccent
    unicode_assigned unistr unnest upper_inc upper_inf uuid_extract_timestamp uuid_extract_version uuidv4 uuidv7 var_pop
    var_samp variance version websearch_to_tsquery width width_bucket word_similarity xmlagg";

/// MySQL and MariaDB.
const MYSQL: &str = "
    adddate addtime aes_decrypt any_value ascii bin bin_to_uuid bit_and bit_count bit_length bit_or bit_xor cast char charset
    coercibility collation connection_id conv convert convert_tz crc32 curdate current_user curtime database date date_add
    date_format date_sub datediff day dayname dayofmonth dayofweek dayofyear elt export_set extract field find_in_set format
    format_bytes from_base64 from_days from_unixtime get_format group_concat grouping hex hour if inet6_aton inet6_ntoa
    inet_aton inet_ntoa insert instr interval is_ipv4 is_ipv6 isnull json_array json_array_append json_array_insert
    json_arrayagg json_contains json_contains_path json_depth json_exists json_extract json_insert json_keys json_length
    json_merge json_merge_patch json_merge_preserve json_object json_objectagg json_overlaps json_pretty json_query json_quote
    json_remove json_replace json_search json_set json_type json_unquote json_valid json_value last_day lcase localtime
    localtimestamp locate log10 log2 make_set makedate maketime md5 median microsecond mid minute month monthname now nvl nvl2
    oct ord percentile_cont percentile_disc period_add period_diff position quarter quote rand regexp_instr regexp_like
    regexp_replace regexp_substr repeat sec_to_time second session_user sha sha1 sha2 soundex space st_asgeojson st_astext
    st_contains st_distance st_geomfromtext st_intersects st_x st_y std stddev stddev_pop stddev_samp str_to_date strcmp
    subdate substring_index subtime sysdate system_user time time_format time_to_sec timediff timestamp timestampadd
    timestampdiff to_base64 to_char to_days to_seconds truncate ucase unhex unix_timestamp upper user utc_date utc_time
    utc_timestamp uuid uuid_to_bin values var_pop var_samp variance version week weekday weekofyear weight_string year yearweek";

/// SQLite.
const SQLITE: &str = "
    acosh asinh atanh bm25 changes char concat cosh date datetime format generate_series glob group_concat hex highlight if iif
    instr json json_array json_array_length json_each json_error_position json_extract json_group_array json_group_object
    json_insert json_object json_patch json_pretty json_quote json_remove json_replace json_set json_tree json_type json_valid
    jsonb jsonb_array jsonb_extract jsonb_object julianday like likelihood likely log10 log2 match median nullif octet_length
    percentile percentile_cont pragma_foreign_key_list pragma_index_info pragma_index_list pragma_table_info pragma_table_list
    pragma_table_xinfo printf quote random randomblob regexp sinh snippet soundex sqlite_version strftime string_agg subtype
    tanh time timediff total total_changes trunc typeof unhex unicode unixepoch unlikely zeroblob";

/// DuckDB. Not included: functions that read files (`read_*`, `glob`, `parquet_*`, `sniff_csv`), run text as a query
/// (`query`, `query_table`), change settings or logs, or reveal the process (`getenv`, `duckdb_secrets`,
/// `duckdb_settings`).
const DUCKDB: &str = "
    age any_value approx_count_distinct approx_quantile arbitrary arg_max arg_min array_agg array_concat array_contains
    array_distinct array_extract array_length array_position array_slice array_sort array_to_string ascii bar base64 bit_and
    bit_count bit_or bit_xor bool_and bool_or cardinality cbrt century chr contains corr count_if count_star covar_pop
    covar_samp current_database current_schema date date_add date_diff date_part date_sub date_trunc datediff datepart
    datesub datetrunc day dayname dayofmonth dayofweek dayofyear decade decode duckdb_columns duckdb_constraints
    duckdb_indexes duckdb_schemas duckdb_tables duckdb_types duckdb_views element_at encode ends_with entropy epoch
    epoch_ms epoch_ns epoch_us era even extract factorial favg filter first flatten format formatreadabledecimalsize
    formatreadablesize from_base64 from_hex fsum gamma gcd gen_random_uuid generate_series generate_subscripts greatest
    grouping group_concat hamming hash hex histogram hour ilike_escape instr isfinite isinf isnan isodow isoyear
    jaccard jaro_similarity jaro_winkler_similarity json json_array json_array_length json_contains json_each json_exists
    json_extract json_extract_path json_extract_path_text json_extract_string json_group_array json_group_object json_keys
    json_merge_patch json_object json_pretty json_quote json_structure json_transform json_tree json_type json_valid
    json_value julian kurtosis last last_day lcase lcm levenshtein lgamma like_escape list list_aggregate list_any_value
    list_append list_apply list_avg list_concat list_contains list_count list_distinct list_element list_extract list_filter
    list_has list_has_all list_has_any list_indexof list_intersect list_last list_max list_mean list_median list_min
    list_pack list_position list_reduce list_reverse list_reverse_sort list_slice list_sort list_sum list_transform
    list_unique list_value list_zip listagg localtime localtimestamp log10 log2 mad make_date make_time make_timestamp map
    map_contains map_entries map_extract map_from_entries map_keys map_values max_by md5 mean median microsecond millennium
    millisecond min_by minute mode month monthname multiply nextafter nfc_normalize not_ilike_escape not_like_escape now
    ord parse_dirname parse_filename position prefix printf product quantile quantile_cont quantile_disc quarter random range
    regexp_escape regexp_extract regexp_extract_all regexp_full_match regexp_matches regexp_replace regexp_split_to_array
    regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy repeat reservoir_quantile row
    second sem set_bit sha1 sha256 signbit skewness split split_part starts_with stats stddev stddev_pop stddev_samp
    str_split str_split_regex strftime string_agg string_split string_split_regex strip_accents strlen strpos strptime
    struct_extract struct_insert struct_pack suffix timezone timezone_hour timezone_minute to_base64 to_binary to_days
    to_hex to_hours to_json to_microseconds to_milliseconds to_minutes to_months to_seconds to_timestamp to_weeks to_years
    today transaction_timestamp translate trunc try_cast try_strptime typeof ucase unbin unhex unicode union_extract
    union_tag union_value unnest uuid var_pop var_samp variance vector_type version week weekday weekofyear xor year
    yearweek";

/// BigQuery, including namespaces.
const BIGQUERY: &str = "
    any_value approx_count_distinct approx_quantiles approx_top_count approx_top_sum array array_agg array_concat
    array_concat_agg array_first array_includes array_last array_length array_max array_min array_reverse array_slice array_sum
    array_to_string ascii avg bit_and bit_count bit_or bit_xor bool byte_length bytes cast chr code_points_to_bytes
    code_points_to_string contains_substr corr cosh countif covar_pop covar_samp current_datetime date date_add date_diff
    date_from_unix_date date_sub date_trunc datetime datetime_add datetime_diff datetime_sub datetime_trunc div edit_distance
    ends_with extract farm_fingerprint float64 format format_date format_datetime format_time format_timestamp from_base32
    from_base64 from_hex generate_array generate_date_array generate_timestamp_array generate_uuid grouping hll_count.extract
    hll_count.init hll_count.merge hll_count.merge_partial ieee_divide if initcap instr int64 is_inf is_nan json_array
    json_extract json_extract_array json_extract_scalar json_extract_string_array json_keys json_object json_query
    json_query_array json_type json_value json_value_array justify_days justify_hours justify_interval last_day lax_bool
    lax_float64 lax_int64 lax_string left length log10 logical_and logical_or make_interval max_by md5 min_by net.host
    net.ip_from_string net.ip_to_string net.public_suffix net.reg_domain normalize normalize_and_casefold offset ordinal
    parse_bignumeric parse_date parse_datetime parse_json parse_numeric parse_time parse_timestamp percentile_cont
    percentile_disc qualify rand range_bucket regexp_contains regexp_extract regexp_extract_all regexp_instr regexp_replace
    regexp_substr repeat right safe_add safe_cast safe_convert_bytes_to_string safe_divide safe_multiply safe_negate
    safe_offset safe_ordinal safe_subtract session_user sha1 sha256 sha512 sinh soundex split st_area st_asgeojson st_astext
    st_centroid st_contains st_distance st_dwithin st_geogfromtext st_geogpoint st_intersects st_length st_within st_x st_y
    starts_with stddev stddev_pop stddev_samp string string_agg strpos struct tanh time time_add time_diff time_sub time_trunc
    timestamp timestamp_add timestamp_diff timestamp_micros timestamp_millis timestamp_seconds timestamp_sub timestamp_trunc
    to_base32 to_base64 to_code_points to_hex to_json to_json_string translate trunc typeof unicode unix_date unix_micros
    unix_millis unix_seconds unnest var_pop var_samp variance";

type Names = LazyLock<HashSet<&'static str>>;

fn listed(own: &'static str) -> HashSet<&'static str> {
    COMMON.split_whitespace().chain(own.split_whitespace()).collect()
}

/// By its name in lower case, as PostgreSQL's grammar gives it.
#[cfg(feature = "postgresql")]
pub(crate) fn postgresql(name: &str) -> bool {
    static NAMES: Names = LazyLock::new(|| listed(POSTGRESQL));
    NAMES.contains(name)
}

pub(crate) fn mysql(name: &str) -> bool {
    static NAMES: Names = LazyLock::new(|| listed(MYSQL));
    NAMES.contains(name.to_ascii_lowercase().as_str())
}

pub(crate) fn sqlite(name: &str) -> bool {
    static NAMES: Names = LazyLock::new(|| listed(SQLITE));
    NAMES.contains(name.to_ascii_lowercase().as_str())
}

pub(crate) fn duckdb(name: &str) -> bool {
    static NAMES: Names = LazyLock::new(|| listed(DUCKDB));
    NAMES.contains(name.to_ascii_lowercase().as_str())
}

/// Also as `SAFE.name`.
pub(crate) fn bigquery(name: &str) -> bool {
    static NAMES: Names = LazyLock::new(|| listed(BIGQUERY));
    let name = name.to_ascii_lowercase();
    NAMES.contains(name.strip_prefix("safe.").unwrap_or(&name))
}
