//! The token estimate compared with `o200k_base`, the encoding of OpenAI's models: within 20 % for typical content of
//! conversations.

use rejoin_models::tokens;

/// Maximum deviation in percent, in either direction.
const OFF_AT_MOST: f64 = 20.0;

const PROSE: [(&str, &str); 16] = [
    (
        "English",
        "The parcel left the warehouse on Tuesday and should have been here by now. I asked the carrier twice, and both times they told me to wait another day. Could you find out where it was scanned last, who signed for it, and whether we may send a second one without paying twice for the insurance?",
    ),
    (
        "German",
        "Das Paket hat das Lager am Dienstag verlassen und müsste längst angekommen sein. Ich habe zweimal beim Zusteller nachgefragt und wurde beide Male vertröstet. Könntest du herausfinden, wo es zuletzt gescannt wurde und wer den Empfang bestätigt hat? Eine Ersatzlieferung ohne doppelte Versicherungsgebühr wäre wünschenswert.",
    ),
    (
        "French",
        "Le colis a quitté l'entrepôt mardi et devrait être arrivé depuis longtemps. J'ai demandé deux fois au transporteur, qui m'a répondu d'attendre encore une journée. Pourriez-vous vérifier où il a été vu pour la dernière fois, et qui a signé à la réception ?",
    ),
    (
        "Spanish",
        "El paquete salió del almacén el martes y ya tendría que haber llegado. He preguntado dos veces a la empresa de transporte y en ambas ocasiones me dijeron que esperara un día más. ¿Podrías averiguar dónde se registró por última vez y quién firmó la entrega?",
    ),
    (
        "Portuguese",
        "A encomenda saiu do armazém na terça-feira e já deveria ter chegado. Perguntei duas vezes à transportadora e nas duas vezes pediram que eu esperasse mais um dia. Você pode descobrir onde ela foi registrada pela última vez e quem assinou o recebimento?",
    ),
    (
        "Italian",
        "Il pacco ha lasciato il magazzino martedì e dovrebbe essere già arrivato. Ho chiesto due volte al corriere e mi hanno sempre detto di aspettare un altro giorno. Potresti scoprire dove è stato registrato l'ultima volta e chi ha firmato la consegna?",
    ),
    (
        "Dutch",
        "Het pakket heeft het magazijn dinsdag verlaten en had er allang moeten zijn. Ik heb de bezorger twee keer gevraagd en beide keren moest ik nog een dag wachten. Kun je uitzoeken waar het voor het laatst is gescand en wie ervoor heeft getekend?",
    ),
    (
        "Polish",
        "Paczka opuściła magazyn we wtorek i powinna już dawno tu być. Dwa razy pytałem przewoźnika i za każdym razem kazano mi poczekać jeszcze jeden dzień. Czy możesz sprawdzić, gdzie została ostatnio zeskanowana i kto podpisał odbiór?",
    ),
    (
        "Turkish",
        "Koli salı günü depodan çıktı ve şimdiye kadar gelmiş olması gerekiyordu. Kargo şirketine iki kez sordum, ikisinde de bir gün daha beklememi söylediler. En son nerede okutulduğunu ve kimin teslim aldığını öğrenebilir misin?",
    ),
    (
        "Russian",
        "Посылка покинула склад во вторник и уже давно должна была прийти. Я дважды спрашивал службу доставки, и оба раза мне предлагали подождать ещё один день. Можешь узнать, где её видели в последний раз и кто расписался в получении?",
    ),
    (
        "Chinese",
        "包裹星期二就离开了仓库，按理说早就应该送到了。我问了快递公司两次，他们每次都让我再等一天。你能不能查一下它最后一次是在哪里扫描的，是谁签收的？另外，如果再寄一个，我们能不能不用付两次保险费？",
    ),
    (
        "Japanese",
        "荷物は火曜日に倉庫を出たので、もう届いているはずです。配送会社に二回問い合わせましたが、どちらも「もう一日待ってください」と言われました。最後にどこで読み取られたのか、誰が受け取りのサインをしたのか調べてもらえますか。",
    ),
    (
        "Korean",
        "소포는 화요일에 창고를 떠났으니 벌써 도착했어야 합니다. 택배 회사에 두 번 물어보았지만 두 번 모두 하루 더 기다리라는 말을 들었습니다. 마지막으로 어디에서 확인되었는지, 누가 받았다고 서명했는지 알아봐 줄 수 있나요?",
    ),
    (
        "Arabic",
        "غادر الطرد المستودع يوم الثلاثاء وكان من المفترض أن يصل منذ مدة. سألت شركة النقل مرتين وفي كل مرة طلبوا مني أن أنتظر يوما آخر. هل يمكنك أن تعرف أين تم مسحه آخر مرة ومن وقع على استلامه؟",
    ),
    (
        "Hindi",
        "पार्सल मंगलवार को गोदाम से निकल गया था और उसे अब तक पहुँच जाना चाहिए था। मैंने दो बार कूरियर कंपनी से पूछा और दोनों बार मुझे एक दिन और रुकने को कहा गया। क्या आप पता कर सकते हैं कि उसे आखिरी बार कहाँ देखा गया?",
    ),
    (
        "Vietnamese",
        "Gói hàng đã rời kho vào thứ ba và lẽ ra phải đến từ lâu rồi. Tôi đã hỏi công ty vận chuyển hai lần và cả hai lần họ đều bảo tôi chờ thêm một ngày nữa. Bạn có thể tìm xem nó được quét lần cuối ở đâu và ai đã ký nhận không?",
    ),
];

/// Files of the project, as agents read and write them.
const FILES: [(&str, &str); 6] = [
    ("Rust", include_str!("../../../../worker/src/run/answer.rs")),
    (
        "TypeScript",
        include_str!("../../../../web/packages/client/src/transcript.ts"),
    ),
    ("SQL", include_str!("../../../../migrations/0006_runs.up.sql")),
    (
        "Markdown",
        include_str!("../../../../docs/decisions/0034-budgets-count-steps.md"),
    ),
    ("JSON", include_str!("../../../../data/models-overlay.json")),
    ("Python", include_str!("../../../../data/make_debian_graph.py")),
];

fn off_percent(text: &str) -> f64 {
    let counted = tiktoken_rs::o200k_base_singleton().encode_ordinary(text).len() as f64;
    (tokens::estimate(text) as f64 / counted - 1.0) * 100.0
}

#[test]
fn the_estimate_is_near_the_count_in_many_languages_and_in_code() {
    let rows = serde_json::json!(
        (0..40_u32)
            .map(|n| serde_json::json!({"id": uuid::Uuid::from_u128(u128::from(n) * 0x3b9a_ca07_5d1f_22e5_77ab_0c91), "name": format!("Task {n}"),
                "due": "2026-11-24T13:45:00Z", "score": f64::from(n) / 7.0, "labels": ["home", "garden"]}))
            .collect::<Vec<_>>()
    );
    let (compact, pretty) = (rows.to_string(), serde_json::to_string_pretty(&rows).unwrap());
    let results = [("rows", compact.as_str()), ("rows, indented", pretty.as_str())];
    let off: Vec<(&str, f64)> = PROSE
        .into_iter()
        .chain(FILES)
        .chain(results)
        .map(|(what, text)| (what, off_percent(text)))
        .collect();
    let far: Vec<_> = off.iter().filter(|(_, percent)| percent.abs() > OFF_AT_MOST).collect();
    assert!(far.is_empty(), "{far:?} of {off:?}");
}
