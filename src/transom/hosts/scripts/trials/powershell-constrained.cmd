echo checking 1>&2
"%POWERSHELL%" -NoProfile -NonInteractive -Command "$block = Get-Content -LiteralPath 'block.txt' -Raw; $ExecutionContext.SessionState.LanguageMode = 'ConstrainedLanguage'; Invoke-Expression -Command $block; 'mode ' + $ExecutionContext.SessionState.LanguageMode; 'errors ' + $Error.Count"
