"""Which Windows a host is: the build of Server 2019, 2022 or 2025, the language of what its programs say, and its domain.

Builds: Microsoft Learn, "Windows Server release information". The wording in German and Japanese is not Microsoft's: no source
of it was at hand. What counts is that no English word is left that a script could read, and the code page.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

Language = Literal["English", "German", "Japanese"]

_GERMAN = {
    "SERVICE_NAME": "DIENSTNAME",
    "SERVICE_EXIT_CODE": "DIENST_BEENDIGUNGSCODE",
    "WIN32_EXIT_CODE": "WIN32_BEENDIGUNGSCODE",
    "TYPE  ": "TYP   ",
    "STATE ": "STATUS",
    "START_PENDING": "WIRD_GESTARTET",
    "STOP_PENDING": "WIRD_BEENDET",
    "RUNNING": "LÄUFT",
    "STOPPED": "BEENDET",
    "CHECKPOINT": "PRÜFPUNKT",
    "WAIT_HINT": "WARTEHINWEIS",
    "FAILED": "FEHLER",
    "SUCCESS": "ERFOLG",
    "ERROR:": "FEHLER:",
    "Access is denied.": "Zugriff verweigert.",
    "The system was unable to find the specified registry key or value.": "Schlüssel oder Wert wurde nicht gefunden.",
    "The operation completed successfully.": "Der Vorgang wurde erfolgreich beendet.",
    "End of search: ": "Ende der Suche: ",
    " match(es) found.": " Übereinstimmung(en) gefunden.",
    "(Default)": "(Standard)",
    "SHA256 hash of ": "SHA256-Hash von ",
    "command completed successfully": "-Befehl wurde erfolgreich ausgeführt",
    "BUILTIN\\Administrators": "VORDEFINIERT\\Administratoren",
    "BUILTIN\\Users": "VORDEFINIERT\\Benutzer",
    "NT AUTHORITY\\SYSTEM": "NT-AUTORITÄT\\SYSTEM",
    "CREATOR OWNER": "ERSTELLER-BESITZER",
}
_JAPANESE = {
    "SERVICE_NAME": "サービス名",
    "SERVICE_EXIT_CODE": "サービス_終了コード",
    "WIN32_EXIT_CODE": "WIN32_終了コード",
    "TYPE  ": "種類",
    "STATE ": "状態",
    "START_PENDING": "開始中",
    "STOP_PENDING": "停止中",
    "RUNNING": "実行中",
    "STOPPED": "停止",
    "CHECKPOINT": "チェックポイント",
    "WAIT_HINT": "待機ヒント",
    "FAILED": "失敗",
    "SUCCESS": "成功",
    "ERROR:": "エラー:",
    "Access is denied.": "アクセスが拒否されました。",
    "The system was unable to find the specified registry key or value.": "キーまたは値が見つかりません。",
    "The operation completed successfully.": "この操作を正しく終了しました。",
    "End of search: ": "検索の完了: ",
    " match(es) found.": " 個一致しました。",
    "(Default)": "(既定)",
    "SHA256 hash of ": "SHA256 ハッシュ: ",
    "command completed successfully": "コマンドは正常に完了しました",
}
_TEXTS: Mapping[Language, Mapping[str, str]] = {"English": {}, "German": _GERMAN, "Japanese": _JAPANESE}
_LANGUAGES: Mapping[Language, str] = {"English": "0409", "German": "0407", "Japanese": "0411"}
_CODE_PAGES: Mapping[Language, str] = {"English": "cp437", "German": "cp850", "Japanese": "cp932"}


class Edition(msgspec.Struct, frozen=True):
    """One Windows. `domain` is the NetBIOS name of the domain that the host and its user belong to; empty: none.

    `openssh` is the version of its SSH server: 7.7 is the capability of Server 2019 (docs/windows-nodes.md).
    """

    product: str = "Windows Server 2022 Datacenter"
    build: str = "20348.2485"
    language: Language = "English"
    domain: str = ""
    openssh: str = "9.5"

    @property
    def language_id(self) -> str:
        """The LANGID of the language, in hex (Microsoft Learn, "Available languages for Windows")."""
        return _LANGUAGES[self.language]

    def encode_message(self, text: str) -> bytes:
        """Translate a program's output to the edition's language and encode it in its code page."""
        for english, other in _TEXTS[self.language].items():
            text = text.replace(english, other)
        return text.encode(_CODE_PAGES[self.language], "replace")


SERVER_2019 = Edition("Windows Server 2019 Datacenter", "17763.6293", openssh="7.7")
SERVER_2022 = Edition()
SERVER_2025 = Edition("Windows Server 2025 Datacenter", "26100.2033")
