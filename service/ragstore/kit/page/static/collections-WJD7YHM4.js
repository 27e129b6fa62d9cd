import{h as a}from"./chunk-3IQ2MLCJ.js";import"./chunk-52NQCJG4.js";export{a as default};
