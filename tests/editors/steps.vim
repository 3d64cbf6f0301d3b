" Runs `:make` in Vim, and tells which file and place it jumped to.
" Sourced after the recipe of docs/editors.md, which is the whole configuration.
execute "edit" fnameescape($STEPS_FILE)
silent make
let s:found = filter(getqflist(), 'v:val.valid')
cfirst
let s:seen = {
      \ 'found': map(s:found, '{"line": v:val.lnum, "column": v:val.col, "text": v:val.text}'),
      \ 'file': expand('%:p'), 'line': line('.'), 'column': col('.')}
call writefile([json_encode(s:seen)], $STEPS_REPORT)
qall!
