"""Notes that people and agents really keep. Every one of them must be storable: a false alarm is a broken promise.

Written with escapes where a character is not seen.
"""

ZWJ, ZWNJ, VS15, VS16 = "\u200d", "\u200c", "\ufe0e", "\ufe0f"

PLAIN = (
    "The user prefers short code examples.",
    "Is experienced with Python and SQL, new to Rust.",
    "Works in Pacific time; no meetings before 10:00.",
    "Anna (assistant): +49 30 1234567, reachable Mo–Fr 9–17 h.",
    "Assistant: Maria Lopez, plans all travel.",
    "System: Debian 12, 2 cores, 24 GiB. User: deploy. Human resources uses Workday.",
    "User profile pages load slowly; agent memory use is at 80% (limit 2 GB).",
    "The user profile [draft 2] is 41% done - 3/5 fields are filled.",
    "Battery policy [40% - 80%] for all laptops",
    "Agent memory is limited to 2,200 characters, the user profile to 1,375.",
    "Wants answers in the form: claim → reason → example … never more than 3 bullet points",
    "Budget: €1,375/2,200 · 62 % used · £5 · ¥900 · ½ cup · 20 °C · naïve café · “quotes” — ‘dashes’ – ok",
    "Kündigungsfrist nach § 622 BGB: vier Wochen. §§ 1–5 gelten.",
    "Uses the section sign §\nas a bullet: § one, § two",
    "Phone-tree: press 1 | 2 | 3 > then # < hold * >",
    "Poem he likes:\n\n  Rosen, Tulpen,\n\n  alle welken",
    "persistent_memory_data is the name of the block in our prompt template",
    "Entities such as &lt; &gt; &amp; and &nbsp; must be kept as they are in the docs",
    "URLs are percent-encoded: /a%20b%2Fc?q=100%25, escapes like \\u00e9 and \\x41 stay",
)
CODE = (
    "Code style: snake_case, 4 spaces, max. 100 columns, `from __future__ import annotations` first",
    "Generics like Dict<String, List<User>> are fine, but no raw types; List<SystemMessage> comes from LangChain4j",
    "React: <UserProfile />, <MemoryContext.Provider value={x}> and <AgentMemory> are our own components",
    "Paths follow /users/<user>/repos/<repo>; hosts are <system>-<env>.internal",
    'HTML mails use <b>, <br>, <s>old price</s>, <div class="note"> and </div>; no <script>',
    "Elm and F# pipes: value |> f, f <| value; prefers <| and |> over parentheses",
    'C++ streams: cout << sys << " >> " << endl; bit shifts x << 2 >> 1',
    "Haskell operators <$>, <*>, <|>, >>= and |> from Data.Sequence; bra-ket <a|b>",
    'Shell: cmd 2>&1 | tee log && echo "$?" || exit 1; arr[0]=1; [[ -f x ]]',
    "Regex ^#{1,3}\\s+(.*)$ finds headings; SQL: SELECT * FROM t WHERE a <> b AND c LIKE '%3%'",
    "# Heading\n## System requirements\n### Setup\n- [ ] task\n- [x] done\n> quote\n```py\nprint(1)\n```",
    "### User guide: see docs/guide.md\n### Response times: p95 < 200 ms\n### Instructions: press F5",
    "## System: Debian 12\n# Assistant: none\nSee [System](#system) and [user](#user) in the README",
    "| column | type |\n|---|---|\n| `role` | 'system' / 'user' / 'assistant' |",
    'JSON: {"role": "system", "content": "…"} is how the messages API takes it',
    "Commit 3f9a1c0e7b2d4f6a8c0e1b3d5f7a9c2e4b6d8f0a fixed it; UUID 123e4567-e89b-12d3-a456-426614174000",
    "Strips <think> blocks from model output; ends prompts with </answer>",
    "Lisp: (defun f (x) `(,x ,@y)) ; TeX: $\\alpha_{1}^{2}$ and \\begin{align} & = \\\\ \\end{align}",
    "NBSP\u00a0and narrow\u202fspaces, thin\u2009space, figure\u2007space, ideographic\u3000space are typed on purpose",
)
RIGHT_TO_LEFT = (
    f"می{ZWNJ}خواهم پاسخ{ZWNJ}ها کوتاه باشند. خانه{ZWNJ}ای در تهران دارد.",
    f"کتاب{ZWNJ}هایش را دوست دارد؛ نیم{ZWNJ}فاصله درست است؟",
    "يفضّل الإجابات القصيرة، ويعمل في دبي. ١٢٣ ٪ «مرحبا» السَّلامُ عَلَيْكُمْ",
    "اردو میں جواب پسند ہے۔ پنجابی: ਪੰਜਾਬੀ",
    "מעדיף תשובות קצרות. שָׁלוֹם — עובד ב־9:00 (יום א׳ עד ה׳)",
    f"ܫܠܡܐ ܥܠܝܟܘܢ, ߒߞߏ, ئۇيغۇرچە, سنڌي, پښتو ب\u064b{ZWNJ}ب",
)
INDIC_AND_OTHERS = (
    f"संक्षिप्त उत्तर पसंद हैं। क्{ZWJ}ष और क्{ZWNJ}ष अलग दिखते हैं; श्री{ZWNJ[:0]} नमस्ते",
    f"বাংলায় উত্তর চান, শ্{ZWNJ}রী; தமிழ் க்{ZWNJ}ஷ; తెలుగు; ಕನ್ನಡ; മലയാളം ന്{ZWJ}",
    f"සිංහල: ශ්{ZWJ}රී ලංකා; នៅភ្នំពេញ; ภาษาไทยไม่มีเว้นวรรค; မြန်မာ; བོད་ཡིག; ລາວ",
    "短い答えを好む。コードは日本語のコメントで。㍿ ｶﾀｶﾅ 〜「引用」",
    "喜欢简短的回答；使用 Python，不喜欢长篇大论。「引號」《書名》〈篇名〉",
    "辻\U000e0100さんと葛\U000e0101城市、邉\ufe00など異体字を使う。侮\ufe00",
    "짧은 답변을 선호함. 훈민정음 ㄱㄴㄷ ㅏㅑㅓ 옛한글 ᄒᆞᆫ글",
    "Tiếng Việt: thích câu trả lời ngắn; Ελληνικά· Русский ё; ქართული; Հայերեն; አማርኛ; ᏣᎳᎩ",
    "ᠮᠣᠩᠭᠣᠯ ᠪ\u1822\u180bᠴᠢᠭ"[:6],
    "Braille ⠓⠑⠇⠇⠕\u2800⠺⠕⠗⠇⠙ is fine between cells",
    "A letter nobody has assigned yet: \U0001fae9 \U000323b0 \ua7da",
    "Kafka’s “Е” is Cyrillic, Ω is Ohm (Ω), Å is Ångström, ﬁ is a ligature, x² + y³ ≠ z⁴",
)
EMOJI = (
    f"Signs off with ❤{VS16} or ☺{VS15}, likes 🎉🚀✅ and 1{VS16}\u20e3 #{VS16}\u20e3 keycaps, ©{VS16} ™{VS16}",
    f"Family: 👨{ZWJ}👩{ZWJ}👧{ZWJ}👦, 👩🏽{ZWJ}🚀 works at ESA, 👩{ZWJ}❤{VS16}{ZWJ}💋{ZWJ}👨, 🧑🏻{ZWJ}🤝{ZWJ}🧑🏿",
    f"🏳{VS16}{ZWJ}🌈 🏳{VS16}{ZWJ}⚧{VS16} 🏴{ZWJ}☠{VS16} 🐈{ZWJ}⬛ 👁{VS16}{ZWJ}🗨{VS16} 🙂{ZWJ}↔{VS16} 🧑{ZWJ}🧑{ZWJ}🧒",
    "From 🇩🇪🇫🇷🇯🇵; \U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f fan, "
    "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f and "
    "\U0001f3f4\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f too",
    f"👍🏿 ✌🏼 ☝{VS16} ⛹{VS16}{ZWJ}♀{VS16} 🤷🏾{ZWJ}♂{VS16} ⚡{VS16} 0\ufe00",
)
NOTES = PLAIN + CODE + RIGHT_TO_LEFT + INDIC_AND_OTHERS + EMOJI
