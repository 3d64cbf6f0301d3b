" Types into Vim, with the language server by ALE, which is to be installed as a package of Vim's.
" Sourced after the recipe of docs/editors.md.
function! s:wait_for(count) abort
  for l:try in range(600)
    if len(ale#engine#GetLoclist(bufnr('%'))) == a:count
      return v:true
    endif
    sleep 50m
  endfor
  return v:false
endfunction

execute "edit" fnameescape($STEPS_FILE)
set filetype=python
call ale#Queue(0, 'lint_file')
let s:seen = {'appeared': s:wait_for(1)}
let s:seen.found = map(copy(ale#engine#GetLoclist(bufnr('%'))), '{"line": v:val.lnum, "column": v:val.col, "code": v:val.code}')
execute "normal! 8GO    torch.cuda.current_stream().wait_stream(side)\<Esc>"
call ale#Queue(0)
let s:seen.vanished = s:wait_for(0)
normal! 8Gdd
call ale#Queue(0)
let s:seen.back = s:wait_for(1)
call writefile([json_encode(s:seen)], $STEPS_REPORT)
qall!
